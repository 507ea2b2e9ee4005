// The table of the cpu device: opening, memory, information, and one trampoline per work slot into
// the kernels of the instruction set that the device was opened with. Exceptions end here.
#include "kernels/cpu/cpu.hpp"
#include "kernels/call/table.hpp"
#include "kernels/cpu/call.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/opened.hpp"
#include "kernels/cpu/slots.hpp"

#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <sys/mman.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace gradus::inline v1::cpu {
namespace {

constexpr int kMaxThreads = 1024;

// The set of that name, the best one that the processor has if the name is empty; NULL if there is
// none, and *why says which there are.
const Isa* find_isa(const std::string& name, gd_status* status, std::string* why) {
  std::string all, here;
  const Isa *found = nullptr, *best = nullptr;
  for (const Isa* i = isas(); i->name; ++i) {
    if (name == i->name) found = i;
    if (i->supported) best = i;
    all += std::string(all.empty() ? "" : ", ") + i->name;
    if (i->supported) here += std::string(here.empty() ? "" : ", ") + i->name;
  }
  if (name.empty() && best) return best;
  if (found && found->supported) return found;
  *status = found || name.empty() ? GD_UNSUPPORTED : GD_INVALID;
  if (!best)
    *why = "this build has kernels for " + all +
           ", which this processor lacks; configure it with -DGRADUS_CPU_SETS=all";
  else
    *why = found ? "this processor has no " + name + "; it has " + here
                 : "unknown instruction set \"" + name + "\"; there are " + all +
                       ", of which this processor has " + here;
  return nullptr;
}

// ---- scratch: per thread, grown, freed with the thread.

struct Buffers {
  void* at[kScratchCount] = {};
  size_t bytes[kScratchCount] = {};
  ~Buffers() {
    for (void* p : at) std::free(p);
  }
};

void* scratch(int32_t slot, size_t bytes) {
  thread_local const auto kept = std::make_unique<Buffers>();
  Buffers& buffers = *kept;
  constexpr size_t kStep = 4096;
  if (bytes <= buffers.bytes[slot]) return buffers.at[slot];
  if (bytes > SIZE_MAX - kStep) return nullptr;
  std::free(buffers.at[slot]);
  const size_t whole = (bytes + kStep - 1) / kStep * kStep;
  buffers.at[slot] = std::aligned_alloc(64, whole);
  buffers.bytes[slot] = buffers.at[slot] ? whole : 0;
  return buffers.at[slot];
}

// ---- caches

int64_t cache_size(int level) {
  constexpr int64_t usual[] = {32 << 10, 512 << 10, 8 << 20};
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  constexpr int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  const long said = sysconf(names[level - 1]);
  if (said > 0) return int64_t(said);
#endif
  return usual[level - 1];
}

// ---- open

struct Options {
  std::string isa;
  const char* isa_from = "GRADUS_ISA";
  int64_t threads = 0;
  std::string lapack, blas;  // a path, or a name for the system's loader; "": none
};

gd_status read_libraries(const nlohmann::json& config, Options& o, gd_error* e) {
  const auto libraries = config.find("libraries");
  if (libraries == config.end()) return GD_OK;
  if (!libraries->is_object())
    return refuse(e, GD_INVALID, "open", "\"libraries\" should be an object");
  for (const auto& [key, file] : {std::pair("lapack", &o.lapack), std::pair("blas", &o.blas)}) {
    const auto said = libraries->find(key);
    if (said == libraries->end() || *said == "off") continue;
    if (!said->is_string() || said->get_ref<const std::string&>().empty())
      return refuse(e, GD_INVALID, "open", "\"libraries.%s\" should be \"off\" or a library", key);
    *file = said->get<std::string>();
  }
  return GD_OK;
}

// What the program has given.
struct Given {
  std::mutex mutex;
  Libraries libraries;
};
Given& given() {
  static Given* const all = new Given;
  return *all;
}

// The one that the config names, else what is given.
template <class L>
gd_status open_library(const char* key, const std::string& file, std::shared_ptr<const L>& library,
                       gd_error* e) {
  std::string why;
  if (file.empty() || (library = cpu::open_library<L>(file, &why))) return GD_OK;
  return refuse(e, GD_UNSUPPORTED, "open", "libraries.%s: %s", key, why.c_str());
}

template <class L>
std::string take(const GivenLibrary& functions, std::shared_ptr<const L>& to) {
  std::shared_ptr<const L> made;
  std::string why;
  if (!functions.functions.empty()) {
    Library library;
    library.take(functions);
    if (!(made = use_library<L>(std::move(library), &why))) return why;
  }
  const std::lock_guard lock(given().mutex);
  to = std::move(made);
  return "";
}

gd_status read_options(const char* json, Options& o, gd_error* e) {
  if (const char* isa = std::getenv("GRADUS_ISA")) o.isa = isa;
  const char* origin = "GRADUS_THREADS";
  if (const char* text = std::getenv(origin); text && *text) {
    char* end = nullptr;
    o.threads = std::strtoll(text, &end, 10);
    if (*end != 0 || o.threads < 1)
      return refuse(e, GD_INVALID, "open", "GRADUS_THREADS is \"%s\"; expected a number from 1",
                    text);
  }
  if (json && *json) {
    const auto config = nlohmann::json::parse(json, nullptr, false, true);
    if (!config.is_object())
      return refuse(e, GD_INVALID, "open", "the configuration is no JSON object: %s", json);
    if (const auto isa = config.find("isa"); isa != config.end()) {
      if (!isa->is_string()) return refuse(e, GD_INVALID, "open", "\"isa\" should be a string");
      o.isa = isa->get<std::string>();
      o.isa_from = "isa";
    }
    if (const auto threads = config.find("threads"); threads != config.end()) {
      if (!threads->is_number_integer() || threads->get<int64_t>() < 1)
        return refuse(e, GD_INVALID, "open", "\"threads\" should be a number from 1");
      o.threads = threads->get<int64_t>();
    }
    if (gd_status s = read_libraries(config, o, e)) return s;
  }
  if (o.threads == 0) o.threads = int64_t(std::thread::hardware_concurrency());
  if (o.threads == 0) o.threads = 1;
  if (o.threads > kMaxThreads)
    return refuse(e, GD_INVALID, "open", "%lld threads are too many; at most %d",
                  static_cast<long long>(o.threads), kMaxThreads);
  return GD_OK;
}

gd_status check_index(int32_t index, const char* what, gd_error* e) {
  if (index == 0) return GD_OK;
  return refuse(e, GD_BAD_DEVICE, what, "there is one device, 0, and no device %d", index);
}

gd_status open_device(int32_t index, const char* json, gd_device** out, gd_error* e) {
  try {
    Options o;
    if (gd_status s = check_index(index, "open", e)) return s;
    if (gd_status s = read_options(json, o, e)) return s;
    std::string why;
    gd_status status = GD_OK;
    const Isa* isa = find_isa(o.isa, &status, &why);
    if (!isa && o.isa.empty()) return refuse(e, status, "open", "%s", why.c_str());
    if (!isa) return refuse(e, status, "open", "%s: %s", o.isa_from, why.c_str());
    std::unique_lock lock(given().mutex);
    Libraries libraries = given().libraries;
    lock.unlock();
    if (gd_status s = open_library("lapack", o.lapack, libraries.lapack, e)) return s;
    if (gd_status s = open_library("blas", o.blas, libraries.blas, e)) return s;
    const gd_device device{
        int32_t(o.threads),
        isa->kernels(),
        nullptr,
        [](gd_device* d, int64_t tasks, void (*task)(void*, int64_t), void* context) {
          static_cast<Pool*>(d->pool)->run(tasks, task, context);
        },
        scratch,
        find_convert,
        {cache_size(1), cache_size(2), cache_size(3)},
        slot_pointwise};
    *out = new OpenDevice(device, libraries);
    return GD_OK;
  } catch (const std::bad_alloc&) {
    return refuse(e, GD_OOM, "open", "no memory");
  } catch (const std::exception& x) {
    return refuse(e, GD_INTERNAL, "open", "%s", x.what());
  }
}

void close_device(gd_device* d) { delete static_cast<OpenDevice*>(d); }

gd_status libraries(gd_device* d, char* text, size_t size, gd_error* e) {
  try {
    const auto* const device = static_cast<OpenDevice*>(d);
    std::string lines;
    if (device->lapack) lines += device->lapack->text() + "\n";
    if (device->blas) lines += device->blas->text() + "\n";
    std::snprintf(text, size, "%s", lines.c_str());
    return GD_OK;
  } catch (const std::bad_alloc&) {
    return refuse(e, GD_OOM, "libraries", "no memory");
  }
}

// ---- information

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0)
      if (const size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "processor";
}

int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("MemAvailable:", 0) == 0) return std::atoll(line.c_str() + 13) * 1024;
  return -1;
}

gd_status device_info(int32_t index, gd_info* out, gd_error* e) {
  try {
    if (gd_status s = check_index(index, "info", e)) return s;
    Options o;  // the set that an open without options would take
    gd_error ignored{};
    std::string why;
    gd_status none = GD_OK;
    if (read_options("{}", o, &ignored) != GD_OK) o.isa.clear();
    const Isa* isa = find_isa(o.isa, &none, &why);
    if (!isa) isa = find_isa("", &none, &why);
    if (!isa) return refuse(e, none, "info", "%s", why.c_str());
    *out = gd_info{};
    std::snprintf(out->name, sizeof out->name, "%s", processor_name().c_str());
    std::snprintf(out->arch, sizeof out->arch, "%s", isa->name);
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    out->total_bytes = pages > 0 && page > 0 ? int64_t(pages) * page : -1;
    out->free_bytes = available_bytes();
    out->units = int32_t(std::thread::hardware_concurrency());
    out->wave = isa->kernels()->lanes;
    return GD_OK;
  } catch (const std::exception& x) {
    return refuse(e, GD_INTERNAL, "info", "%s", x.what());
  }
}

// ---- memory

// Large blocks lie in huge pages where the system has them: a third more bandwidth, and one page
// fault for 512. A last piece that does not fill one stays in small pages.
gd_status allocate(gd_device*, size_t bytes, void** out, gd_error* e) {
  constexpr size_t kLine = 64, kHuge = size_t(2) << 20;
  const size_t align = bytes < kHuge ? kLine : kHuge;
  const size_t whole = bytes == 0 ? kLine : (bytes + kLine - 1) / kLine * kLine;
  *out = whole < bytes ? nullptr : std::aligned_alloc(align, whole);
#if defined(MADV_HUGEPAGE)
  if (*out && align == kHuge) madvise(*out, whole / kHuge * kHuge, MADV_HUGEPAGE);
#endif
  if (*out) return GD_OK;
  return refuse(e, GD_OOM, "alloc", "the host has no %zu bytes", bytes);
}

// The pages of a large block go back to the system at once, whatever malloc keeps of it.
void release(gd_device*, void* p) {
#if defined(__GLIBC__) && defined(MADV_DONTNEED)
  constexpr size_t kPage = 1 << 16, kLarge = size_t(1) << 20;
  const size_t bytes = p ? malloc_usable_size(p) / kPage * kPage : 0;
  if (bytes >= kLarge && reinterpret_cast<uintptr_t>(p) % kPage == 0)
    madvise(p, bytes, MADV_DONTNEED);
#endif
  std::free(p);
}

// A slot of the chosen instruction set.
template <SlotFn Kernels::*Slot>
gd_status by_isa(gd_device* d, gd_stream* s, const gd_call* c, gd_error* e) {
  return (d->kernels->*Slot)(d, s, c, e);
}

gd_table make_table() {
  gd_table t = calls::new_host_table("cpu", 1);
  t.info = device_info;
  t.open = open_device;
  t.close = close_device;
  t.libraries = libraries;
  t.alloc = allocate;
  t.free = release;
  t.capabilities = [](gd_device* d) -> uint32_t {
    return GD_CAP_HOST_MEMORY | (d->threads > 1 ? GD_CAP_THREADS : 0);
  };
  t.stream_sync = [](gd_device*, gd_stream*, gd_error*) -> gd_status { return GD_OK; };
  // A plan is one block of malloc.
  t.prepare = [](gd_device* d, const gd_call* c, void** plan, gd_error* e) -> gd_status {
    *plan = nullptr;
    if (c->slot == GD_CHAIN) return prepare_chain(d, c, plan, e);
    return c->slot == GD_CONTRACT ? d->kernels->prepare_contract(c, plan, e) : GD_OK;
  };
  t.unprepare = [](gd_device*, void* plan) { std::free(plan); };
  t.slot[GD_COPY] = slot_copy;
  t.slot[GD_FILL] = slot_fill;
  t.slot[GD_POINTWISE] = slot_pointwise;
  t.slot[GD_POINTWISE_VJP] = slot_pointwise_vjp;
  t.slot[GD_REDUCE] = by_isa<&Kernels::reduce>;
  t.slot[GD_SCAN] = by_isa<&Kernels::scan>;
  t.slot[GD_CONTRACT] = slot_contract_with_blas;
  t.slot[GD_GATHER] = slot_gather;
  t.slot[GD_SCATTER_ADD] = slot_scatter_add;
  t.slot[GD_RANDOM] = slot_random;
  t.slot[GD_SOFTMAX] = by_isa<&Kernels::softmax>;
  t.slot[GD_NORMALIZE] = by_isa<&Kernels::normalize>;
  t.slot[GD_OPTIMIZER_STEP] = by_isa<&Kernels::optimizer_step>;
  t.slot[GD_SORT] = slot_sort;
  t.slot[GD_LINALG] = slot_linalg;
  t.slot[GD_CHAIN] = slot_chain;
  t.slot[GD_GROUPED] = slot_grouped;
  return t;
}

}  // namespace

std::string give_library(const std::string& key, const GivenLibrary& functions) {
  if (key == "lapack") return take(functions, given().libraries.lapack);
  if (key == "blas") return take(functions, given().libraries.blas);
  return "\"" + key + "\" is no library of the cpu device; it takes \"lapack\" and \"blas\"";
}

const gd_table* table() {
  static const gd_table t = make_table();
  return &t;
}

}  // namespace gradus::cpu
