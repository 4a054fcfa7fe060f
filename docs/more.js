// Marks what has more to be seen when it is scrolled to the right, for book.css.
addEventListener("load", () => {
    for (const box of document.querySelectorAll(".content .table-wrapper, .content p:has(img)")) {
        const mark = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
        box.addEventListener("scroll", mark);
        addEventListener("resize", mark);
        mark();
    }
});
