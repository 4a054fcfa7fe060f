// JPA, with EclipseLink.

import java.sql.Connection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import javax.persistence.EntityManager;
import javax.persistence.EntityManagerFactory;
import javax.persistence.Persistence;

public class WithJpa extends Checks {
    // region bulk
    static List<Long> insertAll(EntityManager manager, List<String> items) {
        List<Order> orders = items.stream().map(Order::new).collect(Collectors.toList());
        manager.getTransaction().begin();
        orders.forEach(manager::persist);
        manager.getTransaction().commit();
        return orders.stream().map(order -> order.id).collect(Collectors.toList());
    }
    // endregion

    static EntityManagerFactory factory() {
        // EclipseLink takes a password that is a hexadecimal number for an encrypted one.
        String url = url("reWriteBatchedInserts=true&user=" + System.getenv("PGUSER")
                + "&password=" + System.getenv("PGPASSWORD"));
        return Persistence.createEntityManagerFactory("shop", Map.of("javax.persistence.jdbc.url", url));
    }

    public static void main(String[] arguments) throws Exception {
        Connection connection = connect("");
        EntityManagerFactory factory = factory();

        promise("jpa: 1,000 entities take one block of ids and less than 20 statements", () -> {
            long reserved = statements(connection, "leaf_segment_reserve");
            long inserts = statements(connection, "^insert into orders");
            EntityManager manager = factory.createEntityManager();
            List<Long> ids = insertAll(manager, ITEMS);
            manager.close();
            equal(stored(connection, ids), ITEMS);
            equal(statements(connection, "leaf_segment_reserve"), reserved + 1);
            equal(statements(connection, "^insert into orders") < inserts + 20, true);
        });
        promise("jpa: a block is reserved in a transaction of its own, and ids that were rolled back do not come again", () -> {
            EntityManager manager = factory.createEntityManager();
            manager.getTransaction().begin();
            List<Order> lost = ITEMS.stream().map(Order::new).collect(Collectors.toList());
            lost.add(new Order("one more"));
            manager.persist(lost.get(0));
            manager.flush();
            lost.forEach(manager::persist); // the last one needs another block
            equal(number(connection, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    + " AND (state, query) = ('idle', 'COMMIT')"), 1L);
            manager.getTransaction().rollback();
            Set<Long> ids = new HashSet<>(insertAll(manager, ITEMS));
            lost.forEach(order -> ids.add(order.id));
            equal(ids.size(), lost.size() + ITEMS.size());
            manager.close();
        });
        factory.close();
        connection.close();
        end();
    }
}
