// Upload: host memory on its way into tensors beside the device's work. put() sends it, from any
// thread, on a stream of its own to a place of its own; take() has the calls that follow find it in
// their tensors, which keep their addresses, so that captured steps read them. Nobody waits on the
// host.
#pragma once
#include "engine/tensor.hpp"

namespace gradus::inline v1 {

class Upload {
 public:
  // Where there are no streams and events, or the memory is the host's, there is nothing to win.
  static bool offered(const Device& device);
  explicit Upload(Device& device) : device_(device) {}
  ~Upload();  // waits for what is on its way
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Makes room for all that one put() brings; first of all. In the thread of the device's calls.
  void reserve(size_t bytes);
  struct Piece {
    const void* from;
    size_t bytes;
  };
  // The pieces may change as soon as this returns. Waits, on the device, for the last take(). Error
  // (device) as of any copy. Only one thread at a time has the object.
  void put(std::span<const Piece> pieces);
  // The pieces of the last put(), in their order, over these whole tensors.
  void take(std::span<const Tensor> to);
  static size_t room(size_t bytes) { return (bytes + 255) / 256 * 256; }  // for one piece

 private:
  void check(gd_status status, const gd_error& error) const;

  Device& device_;
  Tensor place_;
  gd_stream* stream_ = nullptr;
  gd_event *there_ = nullptr, *taken_ = nullptr;
};

}  // namespace gradus
