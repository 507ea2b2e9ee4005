#include "engine/device/device.hpp"

#include "engine/base/error.hpp"
#include "engine/abi/user_dtype.hpp"

#include <algorithm>
#include <map>

namespace gradus::inline v1 {

namespace {

struct Registered {
  const gd_table* table;
  std::string source;
};

struct Registry {
  std::mutex mutex;
  std::vector<Registered> tables;
  std::map<std::string, Device*> devices;  // never freed: tensors may outlive main()
  StatementSide side{0, 0, nullptr};
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

thread_local Device* default_here = nullptr;

ErrorKind kind_of(gd_status status, std::string_view text = {}) {
  const bool index = text.find("is outside [") != text.npos;  // of gather and scatter_add
  return status == GD_INVALID       ? (index ? ErrorKind::index : ErrorKind::value)
         : status == GD_UNSUPPORTED ? ErrorKind::dtype
         : status == GD_OOM         ? ErrorKind::memory
         : status == GD_INTERNAL    ? ErrorKind::internal
                                    : ErrorKind::device;
}

void* raw_allocate(void* device, size_t bytes) {
  auto* d = static_cast<Device*>(device);
  void* out = nullptr;
  gd_error error{};
  const gd_status status = d->table().alloc(d->handle(), bytes, &out, &error);
  if (status != GD_OK && status != GD_OOM) fail(kind_of(status), "allocate", error.text);
  return status == GD_OK ? out : nullptr;
}
void raw_release(void* device, void* data) {
  auto* d = static_cast<Device*>(device);
  d->table().free(d->handle(), data);
}

// First statement on which the two sides differ, in words.
std::string difference(const gd_table* table, const StatementSide& host) {
  const int32_t n = std::min(host.count, table->statement_count);
  for (int32_t i = 0; i < n; ++i) {
    const char* const text = table->statement_text(i);
    const std::string ours = host.text(i), theirs = text ? text : "";
    if (ours != theirs)
      return join("statement ", i, " is \"", ours, "\" here and \"", theirs, "\" in the module");
  }
  return join("there are ", host.count, " statements here and ", table->statement_count,
              " in the module");
}

std::pair<std::string, int> split_name(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return {std::string(name), 0};
  const std::string digits(name.substr(colon + 1));
  if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != digits.npos)
    fail(ErrorKind::config, "device", "\"", name, "\" is not a device; write kind or kind:N");
  return {std::string(name.substr(0, colon)), std::stoi(digits)};
}

}  // namespace

Device::Device(const gd_table* table, int index, gd_device* handle, std::string name,
               std::string lacks)
    : name_(std::move(name)),
      kind_(table->kind),
      index_(index),
      table_(table),
      handle_(handle),
      host_memory_(table->capabilities && (table->capabilities(handle) & GD_CAP_HOST_MEMORY) != 0),
      pool_({this, raw_allocate, raw_release}, name_),
      lacks_(std::move(lacks)) {}

gd_info Device::info() const {
  gd_info info{};
  gd_error error{};
  if (!table_->info || table_->info(index_, &info, &error) != GD_OK)
    info.total_bytes = info.free_bytes = -1;
  return info;
}

gd_status KernelWrapper::Next::operator()(const gd_call& c, gd_error& error) const {
  if (depth > 0) return device.wrappers()[depth - 1]->call(c, Next{device, c, depth - 1}, error);
  return device.call_slot(c, error);
}

gd_status Device::call_slot(const gd_call& call, gd_error& error) {
  const auto slot = table_->slot[call.slot];
  const Lane here = lane();
  const auto attempt = [&](const gd_call& c) {
    const gd_status status = slot(handle_, here.stream, &c, &error);
    if (status != GD_OOM || host_memory_ || pool_.stats().cached == 0) return status;
    // What a module wants for itself, before it begins, may be what the pool keeps.
    pool_.trim();
    return slot(handle_, here.stream, &c, &error);
  };
  gd_status status = attempt(call);
  if (status != GD_SCRATCH) return status;
  gd_call more = call;
  while (status == GD_SCRATCH && error.wanted > int64_t(more.scratch_bytes)) {
    const Pool::Block block = here.pool->allocate(size_t(error.wanted));
    more.scratch = block.data;
    more.scratch_bytes = uint64_t(error.wanted);
    status = attempt(more);
    here.pool->release(block);  // in the order of the stream: who gets it next comes after the call
  }
  return status;
}

std::string Device::libraries() {
  char text[2048] = "";
  gd_error error{};
  if (!table_->libraries) return "";
  return table_->libraries(handle_, text, sizeof text, &error) == GD_OK ? text : error.text;
}

void Device::run(const gd_call& call) {
  gd_error error;  // not zeroed whole: that would cost more than all else here
  error.code = GD_OK;
  error.native = 0;
  error.text[0] = 0;
  for (int k = 0; k < call.n_in + call.n_out; ++k) {
    const DType t = DType(k < call.n_in ? call.in[k].dtype : call.out[k - call.n_in].dtype);
    if (is_user(t) && user_dtype(t).device != kind_)
      fail(ErrorKind::dtype, current_op(), "dtype ", t, " has kernels on device ",
           user_dtype(t).device, " alone, the operands are on ", name_);
  }
  if (!offers(gd_slot(call.slot)))
    fail(ErrorKind::device, current_op(), "device ", name_, " has no kernel for slot ",
         gd_slot_name(call.slot));
  const size_t n = wrappers().size();
  const gd_status status = n ? KernelWrapper::Next{*this, call, n}(error) : call_slot(call, error);
  if (status != GD_OK) {
    error.text[sizeof error.text - 1] = 0;
    fail(kind_of(status, error.text), *current_op() ? current_op() : gd_slot_name(call.slot),
         error.text[0] ? error.text : join("status ", status, " from ", name_).c_str());
  }
}

void Device::copy_in(void* to, const void* from, size_t bytes, bool constant) {
  for (KernelWrapper* w : wrappers()) w->copied_in(to, from, bytes, constant);
  gd_error error{};
  gd_stream* const on = lane().stream;
  if (bytes && table_->copy(handle_, on, to, from, bytes, GD_HOST_TO_DEVICE, &error) != GD_OK)
    fail(ErrorKind::device, "copy", "to ", name_, ": ", error.text);
}
void Device::copy_out(void* to, const void* from, size_t bytes) {
  for (KernelWrapper* w : wrappers()) w->unseen("values are read on the host");
  synchronize();
  gd_error error{};
  gd_stream* const on = lane().stream;
  if (bytes && table_->copy(handle_, on, to, from, bytes, GD_DEVICE_TO_HOST, &error) != GD_OK)
    fail(ErrorKind::device, "copy", "from ", name_, ": ", error.text);
}
void Device::synchronize() {
  gd_error error{};
  if (table_->stream_sync && table_->stream_sync(handle_, lane().stream, &error) != GD_OK)
    fail(ErrorKind::device, "synchronize", name_, ": ", error.text);
}

void Device::push(KernelWrapper* wrapper) {
  if (!here) here = new std::map<const Device*, std::vector<KernelWrapper*>>;
  (*here)[this].push_back(wrapper);
}
void Device::pop(KernelWrapper* wrapper) {
  if (!here) return;
  std::vector<KernelWrapper*>& list = (*here)[this];
  std::erase(list, wrapper);
  if (list.empty()) here->erase(this);
  if (here->empty()) delete std::exchange(here, nullptr);
}
std::span<KernelWrapper* const> Device::wrappers_here() const {
  const auto it = here->find(this);
  return it == here->end() ? std::span<KernelWrapper* const>() : it->second;
}
void Device::announce_allocated(uint64_t buffer, size_t bytes) {
  for (KernelWrapper* w : wrappers()) w->allocated(buffer, bytes, current_op());
}
void Device::announce_released(uint64_t buffer, size_t bytes) {
  for (KernelWrapper* w : wrappers()) w->released(buffer, bytes);
}

void set_statements(const StatementSide& side) {
  std::lock_guard lock(registry().mutex);
  registry().side = side;
}

void register_table(const gd_table* table, const std::string& source) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (table->magic != GD_MAGIC)
    fail(ErrorKind::device, source, "not a gradus device table (wrong magic number)");
  if (table->major != GD_MAJOR)
    fail(ErrorKind::device, source, "speaks device interface ", table->major, ".", table->minor,
         ", this program speaks ", GD_MAJOR, ".", GD_MINOR, "; rebuild the module");
  // As of version 3.0; later slots may be missing.
  constexpr size_t needed = offsetof(gd_table, slot) + (GD_CHAIN + 1) * sizeof(gd_table::slot[0]);
  if (table->struct_size < needed)
    fail(ErrorKind::device, source, "its table has ", table->struct_size,
         " bytes, this program needs ", needed, " (built by ",
         table->build ? table->build : "nobody", "); rebuild the module");
  if (table->statement_text && r.side.text && table->statements != r.side.hash)
    fail(ErrorKind::device, source, "was built from other statements: ", difference(table, r.side),
         " (built by ", table->build, "); rebuild the module");
  const std::pair<bool, const char*> entries[] = {{table->kind && *table->kind, "kind"},
                                                  {!!table->build, "build"},
                                                  {!!table->statement_text, "statement_text"},
                                                  {!!table->probe, "probe"},
                                                  {!!table->open, "open"},
                                                  {!!table->alloc, "alloc"},
                                                  {!!table->free, "free"},
                                                  {!!table->copy, "copy"}};
  for (const auto& [there, name] : entries)
    if (!there)
      fail(ErrorKind::device, source, "its table has no ", name,
           ", which every device must offer; rebuild the module");
  if (table->prepare && !table->unprepare)
    fail(ErrorKind::device, source, "its table has prepare and no unprepare; rebuild the module");
  for (const Registered& known : r.tables)
    if (std::string_view(known.table->kind) == table->kind) {
      if (known.table == table) return;
      fail(ErrorKind::device, source, "a device kind \"", table->kind, "\" is known already, from ",
           known.source);
    }
  r.tables.push_back({table, source});
}

std::vector<KnownKind> known_kinds() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<KnownKind> out;
  for (const Registered& known : r.tables) {
    KnownKind k{known.table->kind, known.source, known.table->build, known.table->score, 0, ""};
    gd_error error{};
    int32_t count = 0;
    if (known.table->probe(&count, &error) == GD_OK) k.devices = count;
    if (k.devices == 0) k.missing = error.text[0] ? error.text : "no device found";
    out.push_back(std::move(k));
  }
  return out;
}

std::vector<Device*> open_devices() {
  std::lock_guard lock(registry().mutex);
  std::vector<Device*> out;
  for (const auto& [name, device] : registry().devices) out.push_back(device);
  return out;
}

Device& open_device(std::string_view name, const std::string& options) {
  const auto [kind_of_name, index] = split_name(name);
  const auto& kind = kind_of_name;  // clang lets no lambda capture a structured binding
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto found = std::find_if(r.tables.begin(), r.tables.end(), [&](const Registered& known) {
    return known.table->kind == kind;
  });
  if (found == r.tables.end()) {
    std::vector<std::string> kinds;
    for (const Registered& known : r.tables) kinds.push_back(known.table->kind);
    fail(ErrorKind::device, "device", "no device kind \"", kind, "\" is loaded",
         did_you_mean(kind, kinds));
  }
  // The first device of a kind is called by the kind alone: "cpu", "cuda:1".
  const std::string full = index == 0 ? kind : join(kind, ":", index);
  if (const auto it = r.devices.find(full); it != r.devices.end()) return *it->second;
  const gd_table* table = found->table;
  gd_error error{};
  int32_t count = 0;
  if (table->probe(&count, &error) != GD_OK || count == 0)
    fail(ErrorKind::device, "device", full, ": ", error.text[0] ? error.text : "no device found");
  if (index >= count) fail(ErrorKind::device, "device", full, " asked, ", count, " found");
  gd_device* handle = nullptr;
  error.text[0] = 0;
  if (const gd_status s = table->open(index, options.c_str(), &handle, &error); s != GD_OK) {
    std::string_view why = error.text;
    if (const std::string who = kind + " open: "; why.starts_with(who))
      why.remove_prefix(who.size());
    fail(s == GD_INVALID ? ErrorKind::config : ErrorKind::device, "device", full, ": ", why);
  }
  return *(r.devices[full] = new Device(table, index, handle, full, error.text));
}

Device& open_best_device(const std::string& options) {
  std::vector<KnownKind> kinds = known_kinds();
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const KnownKind& a, const KnownKind& b) { return a.score > b.score; });
  for (const KnownKind& k : kinds)
    if (k.devices > 0) return open_device(k.kind, options);
  fail(ErrorKind::device, "device", "no device table is registered");
}

static std::atomic<Device*> default_everywhere{nullptr};
Device& default_device() {
  if (default_here) return *default_here;
  if (Device* d = default_everywhere.load()) return *d;
  Device& best = open_best_device();
  default_everywhere = &best;
  return best;
}
void set_default_device(Device& device) { default_everywhere = &device; }
DeviceScope::DeviceScope(Device& device) : Scoped(default_here, &device) {}

}  // namespace gradus
