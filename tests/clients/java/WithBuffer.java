// A buffer of ids in a service, on JDBC.

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.ds.PGSimpleDataSource;

public class WithBuffer extends Checks {
    static List<Long> draw(IdBuffer buffer, int count) throws SQLException {
        List<Long> ids = new ArrayList<>();
        while (ids.size() < count) {
            ids.add(buffer.next());
        }
        return ids;
    }

    public static void main(String[] arguments) throws Exception {
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl(url(""));
        source.setUser(System.getenv("PGUSER"));
        source.setPassword(System.getenv("PGPASSWORD"));
        Connection connection = connect("");
        if (System.getenv("PGDATABASE").equals("client_plain")) {
            IdBuffer.sql = "CALL leaf_segment_reserve(?, ?, NULL)";
        }

        promise("java buffer: 64 threads draw 32,000 ids, no id comes twice, with a statement per 1,000", () -> {
            IdBuffer buffer = new IdBuffer(source, "orders", 1000);
            long before = statements(connection, "leaf_segment_reserve");
            ExecutorService threads = Executors.newFixedThreadPool(64);
            List<Future<List<Long>>> drawn = new ArrayList<>();
            for (int thread = 0; thread < 64; thread++) {
                drawn.add(threads.submit((Callable<List<Long>>) () -> draw(buffer, 500)));
            }
            Set<Long> ids = new HashSet<>();
            for (Future<List<Long>> of : drawn) {
                List<Long> sorted = new ArrayList<>(of.get());
                sorted.sort(null);
                equal(of.get(), sorted);
                ids.addAll(sorted);
            }
            threads.shutdown();
            equal(ids.size(), 32000);
            equal(statements(connection, "leaf_segment_reserve"), before + 32);
        });
        promise("java buffer: after an error it goes on", () -> {
            IdBuffer buffer = new IdBuffer(source, "later_java", 10);
            try {
                buffer.next();
                throw new AssertionError("there is such a tag");
            } catch (SQLException missing) {
                equal(missing.getSQLState(), "42704");
            }
            try (Statement create = connection.createStatement()) {
                create.execute("SELECT leaf_tag_create('later_java')");
            }
            List<Long> ids = draw(buffer, 25);
            equal(ids.get(0), 1L);
            equal(ids.get(24), 25L);
        });
        connection.close();
        end();
    }
}
