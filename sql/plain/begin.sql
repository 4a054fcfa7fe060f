/*
 * leaf without its library: what a service needs to draw ids, in PL/pgSQL.
 *
 * `leafctl plain install` executes these files in one transaction: begin, settings, the
 * tables of the extension's script, history, readers, segments, tags, worker, end. An upgrade leaves
 * out settings and tables. @extschema@ is the schema of the functions, @routines@ their names there.
 */
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;
SET LOCAL lock_timeout = '5s';
