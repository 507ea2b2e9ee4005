// A file of samples whose targets nobody has to know.
#include "ops/train/data/npz.hpp"
#include "ops/train/data/own.hpp"
#include "engine/base/error.hpp"
#include "engine/files/npy.hpp"

#include <algorithm>

namespace gradus::inline v1::training {

namespace {

bool ends(const std::string& file, const char* with) {
  std::string small = file;
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return char(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return small.ends_with(with);
}

Raw read_inputs(const std::string& file, const OwnData& config, const Form& form) {
  Device& host = open_device("cpu");
  if (ends(file, ".png")) return raw_of_image(file, form);
  if (ends(file, ".npy")) return raw_of_tensor(read_npy(file, host), file, form);
  if (ends(file, ".npz"))
    return raw_of_tensor(read_npz(file, config.all.x.empty() ? "x" : config.all.x, host), file,
                         form);
  if (ends(file, ".csv") || ends(file, ".tsv") || ends(file, ".txt")) {
    Raw raw = read_csv(config, file, &form, false);
    // Whole columns of bytes are pixels, or tokens, as well.
    if (form.kind != InputKind::numbers) {
      const auto& x = std::get<std::vector<double>>(raw.inputs);
      const Tensor t = Tensor::from(x, {raw.count, raw.sizes[0]}, host);
      raw = raw_of_tensor(t, file, form);
    }
    return raw;
  }
  fail(ErrorKind::config, file,
       "expected a .npy, .npz, .csv or .png file, or numbers such as \"[5.1,3.5]\"");
}

}  // namespace

bool reads(OwnData::Format format) {
  bool csv = false, npz = false, png = false;
#ifdef GRADUS_CSV
  csv = true;
#endif
#ifdef GRADUS_NPZ
  npz = true;
#endif
#ifdef GRADUS_PNG
  png = true;
#endif
  switch (format) {
    case OwnData::Format::csv:
      return csv;
    case OwnData::Format::npz:
      return npz;
    case OwnData::Format::png:
      return png;
    default:
      return true;
  }
}

Raw raw_of_tensor(const Tensor& x, const std::string& name, const Form& form) {
  const int64_t each = form.inputs_each();
  const std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  // One sample, or a batch; as it was learnt, or as one row.
  const bool one = sizes == form.sizes || (sizes.size() == 1 && sizes[0] == each);
  std::vector<int64_t> rest;
  if (!sizes.empty()) rest.assign(sizes.begin() + 1, sizes.end());
  const bool several = rest == form.sizes || (rest.size() == 1 && rest[0] == each) ||
                       (rest.empty() && each == 1 && !sizes.empty());
  if (!one && !several) {
    std::string wanted;
    for (const int64_t n : form.sizes) wanted += (wanted.empty() ? "" : " x ") + std::to_string(n);
    constexpr const char* kinds[] = {"pixels", "numbers", "tokens"};
    fail(ErrorKind::io, name, "its shape is ", x.sizes(), ", expected ", wanted, " ",
         kinds[int(form.kind)], " for a sample, or a batch of such samples");
  }
  const int64_t count = one ? 1 : sizes[0];
  std::string bytes(x.bytes(), '\0');
  if (x.numel() > 0) x.copy_to_host(bytes.data());
  Raw raw = raw_of(Tensor::from_host(bytes.data(), {count, each}, x.dtype(), x.device()), name, "",
                   &form);
  raw.sizes = form.sizes;
  return raw;
}

Samples load_inputs(const std::string& file, const OwnData& config, const Form& form) {
  return samples_of(read_inputs(file, config, form), form);
}

}  // namespace gradus::training
