<?php
// PHP's PDO.

// region insert
function insert(PDO $db, string $item): int
{
    $insert = $db->prepare('INSERT INTO orders (item) VALUES (?) RETURNING id');
    $insert->execute([$item]);
    return $insert->fetchColumn();
}
// endregion

// region bulk
function insertAll(PDO $db, array $items): array
{
    $insert = $db->prepare(
        'INSERT INTO orders (item) SELECT json_array_elements_text(?) RETURNING id'
    );
    $insert->execute([json_encode($items)]);
    return $insert->fetchAll(PDO::FETCH_COLUMN);
}
// endregion

function connect(): PDO
{
    return new PDO(sprintf(
        'pgsql:host=%s;port=%s;dbname=%s;user=%s;password=%s',
        ...array_map('getenv', ['PGHOST', 'PGPORT', 'PGDATABASE', 'PGUSER', 'PGPASSWORD'])
    ));
}

$failed = false;

/** Runs a check; prints one line. */
function promise(string $text, callable $check): void
{
    global $failed;
    try {
        $check(connect());
        echo "ok      pdo: $text\n";
    } catch (Throwable $error) {
        $failed = true;
        echo "FAILED  pdo: $text\n$error\n";
    }
}

function equal($found, $expected): void
{
    if ($found !== $expected) {
        throw new Exception('expected ' . var_export($expected, true) . ', found ' . var_export($found, true));
    }
}

/** The items of these ids, in the order of the ids. */
function stored(PDO $db, array $ids): array
{
    $found = $db->query('SELECT id, item FROM orders')->fetchAll(PDO::FETCH_KEY_PAIR);
    return array_map(fn ($id) => $found[$id], $ids);
}

promise('RETURNING returns the id as an integer', function (PDO $db) {
    $id = insert($db, 'tea');
    equal(stored($db, [$id]), ['tea']);
});

promise('a JSON array inserts 1,000 rows in one statement and returns their ids in order', function (PDO $db) {
    $items = array_map(fn ($number) => "item $number", range(0, 999));
    $count = "SELECT coalesce(sum(calls), 0)::int FROM stats.pg_stat_statements
               WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                 AND query ~* '^insert into orders'";
    $before = $db->query($count)->fetchColumn();
    equal(stored($db, insertAll($db, $items)), $items);
    equal($db->query($count)->fetchColumn(), $before + 1);
});

promise('trap: lastInsertId fails in a session that used no sequence', function (PDO $db) {
    $db->exec("INSERT INTO orders (item) VALUES ('x')");
    try {
        $db->lastInsertId();
    } catch (PDOException $error) {
        equal($error->getCode(), '55000');
        return;
    }
    throw new Exception('no error');
});

promise("trap: otherwise lastInsertId returns the other sequence's value", function (PDO $db) {
    $db->exec('CREATE TEMPORARY TABLE log (id serial PRIMARY KEY, line text)');
    $db->exec("ALTER SEQUENCE log_id_seq RESTART 1000000");
    $db->exec("INSERT INTO log (line) VALUES ('x')");
    $id = insert($db, 'y');
    equal($db->lastInsertId(), '1000000');
    equal(stored($db, [$id]), ['y']);
});

promise('trap: a browser rounds the ids of JSON that PHP makes of integers', function (PDO $db) {
    $id = $db->query('SELECT leaf_snowflake_next() | 1')->fetchColumn();
    equal(json_encode(['id' => $id]), "{\"id\":$id}");
    equal((int) (float) $id === $id, false);
});

exit($failed ? 1 : 0);
