// region entity
import javax.persistence.Entity;
import javax.persistence.GeneratedValue;
import javax.persistence.Id;
import javax.persistence.Table;

@Entity
@Table(name = "orders")
public class Order {
    @Id
    @GeneratedValue(generator = "orders")
    Long id;

    String item;

    protected Order() {}

    Order(String item) {
        this.item = item;
    }
}
// endregion
