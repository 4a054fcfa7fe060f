-- region migration
SELECT leaf_tag_create('orders');

-- CreateTable
CREATE TABLE "orders" (
    "id" BIGINT NOT NULL DEFAULT leaf_segment_next('orders'::text),
    "item" TEXT NOT NULL,

    CONSTRAINT "orders_pkey" PRIMARY KEY ("id")
);
-- endregion
