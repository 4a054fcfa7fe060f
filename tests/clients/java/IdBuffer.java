// region buffer
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import javax.sql.DataSource;

/** Hands out ids of a tag from a block that it reserves. Threads can share it. */
public class IdBuffer {
    /** In the plain edition: CALL leaf_segment_reserve(?, ?, NULL) */
    static String sql = "SELECT leaf_segment_reserve(?, ?)";

    private final DataSource source;
    private final String tag;
    private final long size;
    private long next;
    private long end;

    public IdBuffer(DataSource source, String tag, long size) {
        this.source = source;
        this.tag = tag;
        this.size = size;
    }

    public synchronized long next() throws SQLException {
        if (next == end) {
            reserve();
        }
        return next++;
    }

    /** The pool's connections are in autocommit mode, which is the default. */
    private void reserve() throws SQLException {
        try (Connection connection = source.getConnection();
                PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, tag);
            statement.setLong(2, size);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                String[] block = row.getString(1).split("[\\[,)]"); // of "[1,1001)"
                next = Long.parseLong(block[1]);
                end = Long.parseLong(block[2]);
            }
        }
    }
}
// endregion
