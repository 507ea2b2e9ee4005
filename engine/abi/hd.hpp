// Marks a function as callable on host and device. The one macro of the plain headers:
// nvcc and hipcc see both qualifiers, a host compiler sees nothing.
#pragma once
#if defined(__CUDACC__) || defined(__HIPCC__)
#define GRADUS_HD __host__ __device__
#else
#define GRADUS_HD
#endif
