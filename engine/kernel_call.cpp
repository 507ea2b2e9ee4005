#include "engine/kernel_call.hpp"

namespace gradus::inline v1 {

Shape broadcast_strides(const Tensor& t, const Shape& sizes) {
  Shape strides(sizes.size(), 0);
  const Shape& own = t.sizes();
  const size_t lead = sizes.size() - own.size();
  for (size_t i = 0; i < own.size(); ++i)
    strides[lead + i] = own[i] == 1 && sizes[lead + i] != 1 ? 0 : t.strides()[i];
  return strides;
}

KernelCall& KernelCall::add(const Tensor& t, const Shape& sizes, const int64_t* strides, int& n) {
  const int k = n_in_ + n_out_;
  if (k == kMax) fail(ErrorKind::internal, current_op(), "too many views in one kernel call");
  Storage& storage = t.storage();
  Device& d = storage.device();
  if (device_ && device_ != &d)
    fail(ErrorKind::device, current_op(), "operands live on ", device_->name(), " and ", d.name(),
         "; move one with to(device)");
  device_ = &d;
  if (streams_used) in_order(*storage.buffer(), &n == &n_out_);
  if (!d.wrappers().empty()) storage.announce_used();
  views_[k] = {
      storage.buffer_id(), storage.data(), int32_t(t.dtype()), int32_t(sizes.size()), t.offset(),
      sizes.data(),        strides};
  ++n;
  return *this;
}

KernelCall& KernelCall::none(int& n) {
  views_[n_in_ + n_out_] = {0, nullptr, 0, 0, 0, nullptr, nullptr};
  ++n;
  return *this;
}

void KernelCall::run() {
  const int64_t* kept = strides_.data();
  for (int k = 0; k < n_in_ + n_out_; ++k)
    if (!views_[k].strides) {
      views_[k].strides = kept;
      kept += views_[k].rank;
    }
  if (!given_.data()) given_ = {ints_.data(), ints_.size()};
  gd_call call{sizeof(gd_call),
               slot_,
               op_,
               n_in_,
               n_out_,
               int32_t(doubles_.size()),
               int32_t(given_.size()),
               views_,
               views_ + n_in_,
               doubles_.data(),
               given_.data(),
               nullptr,
               nullptr,
               0,
               nullptr};
  if (WayChooser* c = device_->chooser()) c->choose(call);
  device_->run(call);
}

void copy_values(const Tensor& from, const Tensor& to) {
  if (to.numel() > 0) KernelCall(GD_COPY).in(from, to.sizes()).out(to).run();
}
Tensor dense_copy(const Tensor& x) {
  const Tensor y = Tensor::empty(x.sizes(), x.dtype(), x.device());
  copy_values(x, y);
  return y;
}
void fill_values(const Tensor& t, std::complex<double> value, int64_t integer) {
  if (t.numel() == 0) return;
  KernelCall(GD_FILL).number(value.real()).number(value.imag()).integer(integer).out(t).run();
}

}  // namespace gradus
