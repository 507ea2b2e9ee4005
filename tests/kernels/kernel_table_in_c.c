/* Compiles the kernel table as C11 with all warnings as errors. */
#include "engine/abi/kernel_table.h"

unsigned long gradus_table_size_in_c(void);
unsigned long gradus_table_size_in_c(void) { return sizeof(gd_table); }
