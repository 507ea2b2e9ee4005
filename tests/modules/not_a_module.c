/* A shared library that is no gradus module: it lacks the entry symbol. */
int unrelated(void);
int unrelated(void) { return 1; }
