CREATE TABLE "orders" (
	"id" bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'::text) NOT NULL,
	"item" text NOT NULL
);
