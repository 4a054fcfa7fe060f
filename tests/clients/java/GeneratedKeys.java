// JDBC, with PostgreSQL's driver.

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class GeneratedKeys extends Checks {
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

    interface Bulk {
        List<Long> insert(Connection connection, List<String> items) throws SQLException;
    }

    /** How many statements a way to insert takes for 1,000 rows, whose ids are verified. */
    static long statements(String options, Bulk bulk) throws SQLException {
        try (Connection connection = connect(options)) {
            long before = statements(connection, "^insert into orders");
            List<Long> ids = bulk.insert(connection, ITEMS);
            long after = statements(connection, "^insert into orders");
            equal(stored(connection, ids), ITEMS);
            return after - before;
        }
    }

    public static void main(String[] arguments) {
        promise("jdbc: generated keys return the id", () -> {
            try (Connection connection = connect("")) {
                long id = insert(connection, "tea");
                equal(stored(connection, Arrays.asList(id)), Arrays.asList("tea"));
            }
        });
        promise("jdbc: trap: RETURN_GENERATED_KEYS returns all columns, the first one first", () -> {
            try (Connection connection = connect("");
                    PreparedStatement insert = connection.prepareStatement(
                            "INSERT INTO orders (item) VALUES ('x')", Statement.RETURN_GENERATED_KEYS)) {
                insert.executeUpdate();
                try (ResultSet keys = insert.getGeneratedKeys()) {
                    equal(keys.getMetaData().getColumnCount(), 2);
                }
            }
        });
        promise("jdbc: a batch with generated keys returns an id per row, in the order of the rows",
                () -> statements("", GeneratedKeys::insertBatch));
        promise("jdbc: trap: a batch with generated keys takes a statement per row in spite of reWriteBatchedInserts",
                () -> equal(statements("reWriteBatchedInserts=true", GeneratedKeys::insertBatch), 1000L));
        promise("jdbc: with ids drawn before, reWriteBatchedInserts takes less than 20 statements for 1,000 rows", () -> {
            long taken = statements("reWriteBatchedInserts=true", GeneratedKeys::insertDrawn);
            equal(taken < 20, true);
        });
        promise("jdbc: an array takes one statement for 1,000 rows and returns their ids in order",
                () -> equal(statements("", GeneratedKeys::insertArray), 1L));
        end();
    }
}
