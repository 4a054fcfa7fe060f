// JDBC, with PostgreSQL's driver.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class GeneratedKeys {
    // region insert
    static long insert(Connection connection, String item) throws SQLException {
        String sql = "INSERT INTO orders (item) VALUES (?)";
        try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"id"})) {
            insert.setString(1, item);
            insert.executeUpdate();
            try (ResultSet keys = insert.getGeneratedKeys()) {
                keys.next();
                return keys.getLong(1);
            }
        }
    }
    // endregion

    // region batch
    static List<Long> insertBatch(Connection connection, List<String> items) throws SQLException {
        String sql = "INSERT INTO orders (item) VALUES (?)";
        List<Long> ids = new ArrayList<>();
        try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"id"})) {
            for (String item : items) {
                insert.setString(1, item);
                insert.addBatch();
            }
            insert.executeBatch();
            try (ResultSet keys = insert.getGeneratedKeys()) {
                while (keys.next()) {
                    ids.add(keys.getLong(1));
                }
            }
        }
        return ids;
    }
    // endregion

    // region drawn
    static List<Long> insertDrawn(Connection connection, List<String> items) throws SQLException {
        List<Long> ids = new ArrayList<>();
        String draw = "SELECT leaf_segment_batch('orders', ?)";
        String sql = "INSERT INTO orders (id, item) VALUES (?, ?)";
        try (PreparedStatement batch = connection.prepareStatement(draw);
                PreparedStatement insert = connection.prepareStatement(sql)) {
            batch.setInt(1, items.size());
            try (ResultSet drawn = batch.executeQuery()) {
                for (String item : items) {
                    drawn.next();
                    ids.add(drawn.getLong(1));
                    insert.setLong(1, drawn.getLong(1));
                    insert.setString(2, item);
                    insert.addBatch();
                }
            }
            insert.executeBatch();
        }
        return ids;
    }
    // endregion

    // region array
    static List<Long> insertArray(Connection connection, List<String> items) throws SQLException {
        String sql = "INSERT INTO orders (item) SELECT unnest(?::text[]) RETURNING id";
        List<Long> ids = new ArrayList<>();
        try (PreparedStatement insert = connection.prepareStatement(sql)) {
            insert.setArray(1, connection.createArrayOf("text", items.toArray()));
            try (ResultSet keys = insert.executeQuery()) {
                while (keys.next()) {
                    ids.add(keys.getLong(1));
                }
            }
        }
        return ids;
    }
    // endregion

    static final List<String> ITEMS =
            IntStream.range(0, 1000).mapToObj(number -> "item " + number).collect(Collectors.toList());

    static boolean failed = false;

    interface Check {
        void run() throws Exception;
    }

    static void promise(String text, Check check) {
        try {
            check.run();
            System.out.println("ok      jdbc: " + text);
        } catch (Exception | AssertionError error) {
            failed = true;
            System.out.println("FAILED  jdbc: " + text);
            error.printStackTrace(System.out);
        }
    }

    static void equal(Object found, Object expected) {
        if (!found.equals(expected)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    /** A connection to the server that the environment names. */
    static Connection connect(String options) throws SQLException {
        var env = System.getenv();
        return DriverManager.getConnection(
                String.format("jdbc:postgresql://%s:%s/%s?%s",
                        env.get("PGHOST"), env.get("PGPORT"), env.get("PGDATABASE"), options),
                env.get("PGUSER"), env.get("PGPASSWORD"));
    }

    static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery(sql)) {
            result.next();
            return result.getLong(1);
        }
    }

    /** Statements that inserted into the table, as the server has counted them. */
    static long inserts(Connection connection) throws SQLException {
        return number(connection,
                "SELECT coalesce(sum(calls), 0) FROM stats.pg_stat_statements"
                        + " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
                        + " AND query ~* '^insert into orders'");
    }

    /** The items of these ids, in the order of the ids. */
    static List<String> stored(Connection connection, List<Long> ids) throws SQLException {
        List<String> items = new ArrayList<>();
        try (PreparedStatement select = connection.prepareStatement(
                "SELECT o.item FROM unnest(?::bigint[]) WITH ORDINALITY AS i (id, n)"
                        + " JOIN orders AS o USING (id) ORDER BY i.n")) {
            select.setArray(1, connection.createArrayOf("bigint", ids.toArray()));
            try (ResultSet result = select.executeQuery()) {
                while (result.next()) {
                    items.add(result.getString(1));
                }
            }
        }
        return items;
    }

    interface Bulk {
        List<Long> insert(Connection connection, List<String> items) throws SQLException;
    }

    /** How many statements a way to insert takes for 1,000 rows, whose ids are verified. */
    static long statements(String options, Bulk bulk) throws SQLException {
        try (Connection connection = connect(options)) {
            long before = inserts(connection);
            List<Long> ids = bulk.insert(connection, ITEMS);
            long after = inserts(connection);
            equal(stored(connection, ids), ITEMS);
            return after - before;
        }
    }

    public static void main(String[] arguments) {
        promise("generated keys return the id", () -> {
            try (Connection connection = connect("")) {
                long id = insert(connection, "tea");
                equal(stored(connection, Arrays.asList(id)), Arrays.asList("tea"));
            }
        });
        promise("trap: RETURN_GENERATED_KEYS returns all columns, the first one first", () -> {
            try (Connection connection = connect("");
                    PreparedStatement insert = connection.prepareStatement(
                            "INSERT INTO orders (item) VALUES ('x')", Statement.RETURN_GENERATED_KEYS)) {
                insert.executeUpdate();
                try (ResultSet keys = insert.getGeneratedKeys()) {
                    equal(keys.getMetaData().getColumnCount(), 2);
                }
            }
        });
        promise("a batch with generated keys returns an id per row, in the order of the rows",
                () -> statements("", GeneratedKeys::insertBatch));
        promise("trap: a batch with generated keys takes a statement per row in spite of reWriteBatchedInserts",
                () -> equal(statements("reWriteBatchedInserts=true", GeneratedKeys::insertBatch), 1000L));
        promise("with ids drawn before, reWriteBatchedInserts takes less than 20 statements for 1,000 rows", () -> {
            long taken = statements("reWriteBatchedInserts=true", GeneratedKeys::insertDrawn);
            equal(taken < 20, true);
        });
        promise("an array takes one statement for 1,000 rows and returns their ids in order",
                () -> equal(statements("", GeneratedKeys::insertArray), 1L));
        System.exit(failed ? 1 : 0);
    }
}
