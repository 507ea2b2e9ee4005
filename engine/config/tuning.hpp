// Tuning: of the ways in which a device can do a contraction (gd_way), the one that was measured to
// be the fastest, for each class of shapes. Kept in a JSON file, apart for each device. What
// measures them is cli/tune.
#pragma once
#include "engine/device/device.hpp"

#include <array>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1 {

// Contractions that one measurement stands for: dtype, algebra, extents rounded up to powers of
// two, and along which group of axes each operand's memory runs. As text:
// "f32 m64 n128 k1024 b1 a:k b:n out:n".
struct ContractionClass {
  enum Group : uint8_t { rows, columns, summed, batch, groups };  // m n k b
  int32_t dtype = 0, algebra = 0;
  std::array<uint8_t, groups> log2{};  // of the extents, rounded up
  std::array<uint8_t, 3> along{};      // of a, b, out: the group of the smallest stride
  auto operator<=>(const ContractionClass&) const = default;
};
// REQUIRES a well-formed GD_CONTRACT call.
ContractionClass class_of(const gd_call& call);
std::string to_text(const ContractionClass& c);
std::optional<ContractionClass> parse_class(const std::string& text);

// "square", or "square/8" for a sum cut into 8 parts; of `op` of a GD_CONTRACT call.
std::string way_text(int32_t op);
std::optional<int32_t> parse_way(const std::string& text);

struct TunedWay {
  int32_t op = GD_WAY_OWN;           // own: no other way was worth it
  double microseconds = 0, own = 0;  // of one call: in this way, by the device's own choice
};

// Puts the best way into the op of each contraction whose class is known and that wishes for none.
// Threads: choose() only reads.
class Tuning : public WayChooser {
 public:
  std::map<ContractionClass, TunedWay> ways;
  void choose(gd_call& call) override;
  int64_t changes() const;  // classes that are not left to the device
};

// A device as tuning files name it: model and architecture, not its number.
std::string tuning_name(const Device& device);
// GRADUS_TUNING, else gradus/tuning.json in XDG_CACHE_HOME or ~/.cache; "" if there is no such
// place.
std::string default_tuning_file();

// What a file holds for a device: nothing if there is no file, or one of another version of the
// format. Error(io) for a file that can't be read or is damaged.
Tuning read_tuning(const std::string& file, const std::string& device);
// A file of this device alone.
void write_tuning(const std::string& file, const std::string& device, const Tuning& tuning);
// Adds these ways to what the file holds, for this device and others, and replaces it as a whole;
// other processes that do the same at once wait for each other (a lock beside the file). Makes the
// file's folder. Error(io).
void update_tuning(const std::string& file, const std::string& device, const Tuning& tuning);

}  // namespace gradus
