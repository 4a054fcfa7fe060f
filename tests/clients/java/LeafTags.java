// region sequences
import org.eclipse.persistence.config.SessionCustomizer;
import org.eclipse.persistence.queries.ValueReadQuery;
import org.eclipse.persistence.sequencing.QuerySequence;
import org.eclipse.persistence.sessions.Session;

/** The tags of leaf, to EclipseLink sequences. */
public class LeafTags implements SessionCustomizer {
    @Override
    public void customize(Session session) {
        session.getLogin().addSequence(tag("orders", 1000));
    }

    /** A sequence that reserves a block of ids at a time, in a transaction of its own. */
    private static QuerySequence tag(String name, int block) {
        boolean isAfterInsert = false;
        boolean usesTransaction = true;
        QuerySequence sequence = new QuerySequence(name, block, isAfterInsert, usesTransaction);
        sequence.setShouldSkipUpdate(true);
        // EclipseLink wants the last id of the block.
        sequence.setSelectQuery(new ValueReadQuery(
                "SELECT upper(leaf_segment_reserve('" + name + "', " + block + ")) - 1"));
        return sequence;
    }
}
// endregion
