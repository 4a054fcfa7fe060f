-- region tags
SELECT leaf_tag_create('orders');
-- endregion
