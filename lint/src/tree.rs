//! The modules of a crate, and what each defines and imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Item, UseTree, Visibility};

/// All modules; the first is the crate's root.
pub struct Tree {
    pub modules: Vec<Module>,
}

/// A module in a file of its own.
pub struct Module {
    pub file: PathBuf,
    /// Its items, without tests.
    pub items: Vec<Item>,
    parent: usize,
    children: BTreeMap<String, usize>,
    defined: BTreeSet<String>,
    imported: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl Tree {
    /// Reads a crate from its root file.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Tree {
            modules: Vec::new(),
        };
        let folder = root.parent().unwrap_or(Path::new("."));
        tree.add(root.to_owned(), folder.to_owned(), 0)?;
        Ok(tree)
    }

    /// Adds the module in a file; its children are in `folder`.
    fn add(&mut self, file: PathBuf, folder: PathBuf, parent: usize) -> Result<usize, String> {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        let items = parsed.items.into_iter().filter(|item| !is_test(item));
        let mut module = Module {
            file,
            items: items.collect(),
            parent,
            children: BTreeMap::new(),
            defined: BTreeSet::new(),
            imported: BTreeMap::new(),
            globs: Vec::new(),
        };
        let mut children = Vec::new();
        for item in &module.items {
            match item {
                Item::Mod(child) if child.content.is_none() => {
                    children.push(child.ident.to_string());
                }
                Item::Use(import) => {
                    let (imported, globs) = (&mut module.imported, &mut module.globs);
                    collect(&import.tree, &mut Vec::new(), imported, globs);
                }
                other => module.defined.extend(name_of(other)),
            }
        }
        let number = self.modules.len();
        self.modules.push(module);
        for child in children {
            let below = folder.join(&child);
            let flat = folder.join(format!("{child}.rs"));
            let file = if flat.exists() {
                flat
            } else {
                below.join("mod.rs")
            };
            let added = self.add(file, below, number)?;
            self.modules[number].children.insert(child, added);
        }
        Ok(number)
    }

    /// The module that defines what `path` refers to in module `from`; `None` if that is
    /// not part of this crate, or is a module.
    pub fn definition(&self, from: usize, path: &[String]) -> Option<usize> {
        self.find(from, path, 0)
    }

    fn find(&self, at: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let module = &self.modules[at];
        // Imports can import each other.
        if depth > 20 {
            return None;
        }
        match first.as_str() {
            "crate" => return self.find(0, rest, depth),
            "self" => return self.find(at, rest, depth),
            "super" => return self.find(module.parent, rest, depth),
            _ => {}
        }
        if let Some(&child) = module.children.get(first) {
            return self.find(child, rest, depth);
        }
        if module.defined.contains(first) {
            return Some(at);
        }
        if let Some(import) = module.imported.get(first) {
            // The import of a crate by its name: what follows is defined there.
            if import.first() == Some(first) && import.len() == 1 {
                return None;
            }
            let whole: Vec<_> = import.iter().chain(rest).cloned().collect();
            return self.find(at, &whole, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let whole: Vec<_> = glob.iter().chain(path).cloned().collect();
            self.find(at, &whole, depth + 1)
        })
    }
}

/// The paths that a `use` imports, by the names that it gives them.
fn collect(
    tree: &UseTree,
    path: &mut Vec<String>,
    imported: &mut BTreeMap<String, Vec<String>>,
    globs: &mut Vec<Vec<String>>,
) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            collect(&step.tree, path, imported, globs);
            path.pop();
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let mut whole = path.clone();
            if name != "self" {
                whole.push(name);
            }
            if let Some(last) = whole.last() {
                imported.insert(last.clone(), whole);
            }
        }
        UseTree::Rename(renamed) => {
            let mut whole = path.clone();
            whole.push(renamed.ident.to_string());
            imported.insert(renamed.rename.to_string(), whole);
        }
        UseTree::Glob(_) => globs.push(path.clone()),
        UseTree::Group(group) => {
            for tree in &group.items {
                collect(tree, path, imported, globs);
            }
        }
    }
}

/// Whether an import is a re-export.
pub fn is_reexport(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

fn is_test(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let condition = attribute
            .path()
            .is_ident("cfg")
            .then(|| attribute.parse_args::<syn::Path>());
        condition.is_some_and(|path| path.is_ok_and(|path| path.is_ident("test")))
    })
}

/// The name that an item defines.
fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Mod(it) => &it.ident,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
