// Writing past the caches: whole lines go to memory without being read first, which saves a copy a
// third of its traffic. Only for outputs so large that they would push everything else out.
#pragma once
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gradus::inline v1::cpu {

// An output of this many bytes is streamed.
inline constexpr int64_t kStreamed = int64_t(16) << 20;

// From memory to the second cache: what is read there soon, faster than the reads alone would.
inline void fetch_ahead(const char* from) { __builtin_prefetch(from, 0, 2); }

// `next`, if there is one, is where reading goes on as long: fetched ahead.
inline void stream_run(char* to, const char* from, int64_t bytes, const char* next = nullptr) {
#if defined(__SSE2__)
  int64_t i = int64_t(-reinterpret_cast<uintptr_t>(to) & 63);
  if (i > bytes) i = bytes;
  if (i > 0) memcpy(to, from, size_t(i));
  for (; i + 64 <= bytes; i += 64) {
    if (next) fetch_ahead(next + i);
    for (int64_t j = i; j < i + 64; j += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + j),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j)));
  }
  if (i < bytes) memcpy(to + i, from + i, size_t(bytes - i));
#else
  (void)next;
  memcpy(to, from, size_t(bytes));
#endif
}
// Streamed lines must be seen by all before a task counts as done.
inline void end_streams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace gradus::cpu
