// What the checks of the Java clients share. They connect as the environment says: PGHOST,
// PGPORT, PGUSER, PGPASSWORD, PGDATABASE.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

class Checks {
    static final List<String> ITEMS =
            IntStream.range(0, 1000).mapToObj(number -> "item " + number).collect(Collectors.toList());

    private static boolean failed = false;

    interface Check {
        void run() throws Exception;
    }

    static void promise(String text, Check check) {
        try {
            check.run();
            System.out.println("ok      " + text);
        } catch (Exception | AssertionError error) {
            failed = true;
            System.out.println("FAILED  " + text);
            error.printStackTrace(System.out);
        }
    }

    static void end() {
        System.exit(failed ? 1 : 0);
    }

    static void equal(Object found, Object expected) {
        if (!found.equals(expected)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    /** The address of the server that the environment names. */
    static String url(String options) {
        return String.format("jdbc:postgresql://%s:%s/%s?%s",
                System.getenv("PGHOST"), System.getenv("PGPORT"), System.getenv("PGDATABASE"), options);
    }

    static Connection connect(String options) throws SQLException {
        return DriverManager.getConnection(url(options), System.getenv("PGUSER"), System.getenv("PGPASSWORD"));
    }

    static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery(sql)) {
            result.next();
            return result.getLong(1);
        }
    }

    /** Statements that match, as the server has counted them in this database. */
    static long statements(Connection connection, String like) throws SQLException {
        return number(connection,
                "SELECT coalesce(sum(calls), 0) FROM stats.pg_stat_statements"
                        + " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
                        + " AND query ~* '" + like + "' AND query !~ 'pg_stat_statements'");
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
}
