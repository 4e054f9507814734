/* The body of a group of functions of each element is generated (elements.c). */
