/* A module that can't be opened, since the library it needs is not found. */
int gradus_missing(void);
int gradus_device_module(void) { return gradus_missing(); }
