//! Rights: owners and grantees that exist, and what only a few should be able to do.

use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::query;

pub async fn check(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    loader(client, findings).await?;
    roles(client, findings).await?;
    functions(client, findings).await
}

/// The loader has the rights of the extension's owner.
async fn loader(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    let sql = "SELECT quote_ident(r.rolname) \
                 FROM pg_extension AS e JOIN pg_roles AS r ON r.oid = e.extowner \
                WHERE e.extname = 'leaf' \
                  AND NOT (has_table_privilege(r.oid, 'leaf.alloc', 'SELECT') \
                           AND has_table_privilege(r.oid, 'leaf.alloc', 'UPDATE') \
                           AND has_table_privilege(r.oid, 'leaf.worker', 'SELECT') \
                           AND has_table_privilege(r.oid, 'leaf.worker', 'INSERT') \
                           AND has_table_privilege(r.oid, 'leaf.worker', 'UPDATE'))";
    if let Some(row) = query::first(client, sql, &[]).await? {
        let owner: String = row.get(0);
        findings.error(
            "rights",
            format!("the owner of the extension, {owner}, may not change leaf's tables, so nothing is granted"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON leaf.alloc, leaf.worker TO {owner}"),
        );
    }
    Ok(())
}

/// Owners and grantees are names, which outlive their roles.
async fn roles(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    let sql = "SELECT biz_tag::text, role::text, is_owner, \
                      CASE WHEN is_owner \
                           THEN format('UPDATE leaf.alloc SET owner = … WHERE biz_tag = %L', biz_tag) \
                           ELSE format('UPDATE leaf.alloc SET grantees = array_remove(grantees, %L) \
                                         WHERE biz_tag = %L', role, biz_tag) END \
                 FROM (SELECT biz_tag, owner AS role, true AS is_owner FROM leaf.alloc \
                       UNION ALL \
                       SELECT biz_tag, unnest(grantees), false FROM leaf.alloc) AS named \
                WHERE role <> 'public' AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \
                ORDER BY 1, 2";
    for row in query::all(client, sql, &[]).await? {
        let (tag, role): (String, String) = (row.get(0), row.get(1));
        let subject = format!("tag \"{tag}\"");
        let cure: String = row.get(3);
        match row.get(2) {
            true => findings.warning(
                &subject,
                format!("its owner, \"{role}\", does not exist; a role that is created with this name will own it"),
                cure,
            ),
            false => findings.notice(
                &subject,
                format!("\"{role}\" may draw, but does not exist; a role that is created with this name may"),
                cure,
            ),
        }
    }
    Ok(())
}

/// What everybody can do that only administrators and services should.
async fn functions(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    let sql = "SELECT p.proname::text \
                 FROM pg_proc AS p \
                 JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid \
                                    AND d.deptype = 'e' \
                 JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'leaf' \
                WHERE p.proname IN ('leaf_tag_attach', 'leaf_worker_register', \
                                    'leaf_worker_renew', 'leaf_worker_release') \
                  AND has_function_privilege('public', p.oid, 'EXECUTE') \
                ORDER BY 1";
    for row in query::all(client, sql, &[]).await? {
        let function: String = row.get(0);
        findings.warning(
            "rights",
            format!("every role can call {function}"),
            format!("REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC"),
        );
    }
    Ok(())
}
