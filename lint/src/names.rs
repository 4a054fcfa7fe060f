//! The paths that a module names.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, ItemUse, UseTree};

use crate::tree::{Module, is_reexport};

/// All paths in a module, except those that it only re-exports.
pub fn of(module: &Module) -> Vec<Vec<String>> {
    let mut names = Names::default();
    for item in &module.items {
        match item {
            Item::Use(import) if is_reexport(&import.vis) => {}
            item => names.visit_item(item),
        }
    }
    names.0.sort();
    names.0.dedup();
    names.0
}

#[derive(Default)]
struct Names(Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Names {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        self.0
            .push(segments.map(|step| step.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        self.add_use(&import.tree, &mut Vec::new());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }
}

impl Names {
    fn add_use(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.add_use(&step.tree, path);
                path.pop();
            }
            UseTree::Name(name) => self.add_below(path, name.ident.to_string()),
            UseTree::Rename(renamed) => self.add_below(path, renamed.ident.to_string()),
            UseTree::Glob(_) => {}
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, path);
                }
            }
        }
    }

    fn add_below(&mut self, path: &[String], name: String) {
        let mut whole = path.to_vec();
        whole.push(name);
        self.0.push(whole);
    }

    /// A macro call contains tokens and not a syntax tree, but paths can be recognized in
    /// them.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end(&mut path);
                    self.add_tokens(group.stream());
                }
                _ => self.end(&mut path),
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.0.push(std::mem::take(path));
        }
    }
}
