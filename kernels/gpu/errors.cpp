// CUDA and HIP share these numbers. Those that mean a lost device are sticky: every later call of
// the process fails alike.
#include "kernels/gpu/errors.hpp"

namespace gradus::inline v1::gpu {
namespace {

struct KnownError {
  int first, last;
  ErrorMeaning meaning;
};
constexpr KnownError kErrors[] = {
    {0, 0, {GD_OK, ""}},
    {2, 2, {GD_OOM, ""}},
    {1, 1, {GD_INVALID, ""}},
    {3,
     3,
     {GD_NO_DRIVER,
      "the driver did not start; after fork() a process can't use a GPU that its parent used"}},
    {9, 9, {GD_INVALID, ""}},
    {17, 17, {GD_INVALID, ""}},
    {34, 35, {GD_NO_DRIVER, ""}},
    {46,
     46,
     {GD_NO_DEVICE,
      "another process holds it for itself (compute mode, see nvidia-smi -q -d COMPUTE)"}},
    {98, 98, {GD_NO_KERNEL_IMAGE, ""}},
    {100, 100, {GD_NO_DEVICE, ""}},
    {101, 101, {GD_BAD_DEVICE, ""}},
    {209, 209, {GD_NO_KERNEL_IMAGE, ""}},
    {214,
     214,
     {GD_DEVICE_LOST,
      "memory of the GPU lost a bit beyond repair (ECC); reset the GPU or the machine, see "
      "nvidia-smi -q -d ECC"}},
    {220, 220, {GD_DEVICE_LOST, "the link between GPUs failed (NVLink), see nvidia-smi nvlink -e"}},
    {222, 222, {GD_NO_KERNEL_IMAGE, ""}},
    {226,
     226,
     {GD_DEVICE_LOST,
      "the GPU contained a fault of its memory or of NVLink; start the process again"}},
    {400, 400, {GD_INVALID, ""}},
    {600, 600, {GD_NOT_READY, ""}},
    {700, 700, {GD_DEVICE_LOST, "a kernel read or wrote beyond its memory"}},
    {701, 701, {GD_INVALID, ""}},
    {702, 702, {GD_DEVICE_LOST, "a kernel took longer than a GPU with a display allows"}},
    {709, 710, {GD_DEVICE_LOST, ""}},
    {714, 719, {GD_DEVICE_LOST, ""}},
    {801, 801, {GD_UNSUPPORTED, ""}},
    {802,
     802,
     {GD_NO_DRIVER,
      "the fabric manager of this machine does not run or is of another version than the driver; "
      "see systemctl status nvidia-fabricmanager"}},
    {803, 804, {GD_NO_DRIVER, "the driver's parts do not fit together; reboot, or reinstall it"}},
    {900, 908, {GD_CAPTURE, ""}},
    {910, 910, {GD_CAPTURE, ""}},
    {911, 911, {GD_DEVICE_LOST, ""}},
    {999, 999, {GD_DEVICE_LOST, "the driver does not say why; see dmesg"}},
};

}  // namespace

ErrorMeaning error_meaning(int number) {
  for (const KnownError& k : kErrors)
    if (number >= k.first && number <= k.last) return k.meaning;
  return {GD_INTERNAL, ""};
}

}  // namespace gradus::gpu
