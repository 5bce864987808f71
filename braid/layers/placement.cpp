#include "braid/layers/placement.h"

#include <algorithm>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/communicator.h"

namespace braid::layers {

void validate(const Placement& place) {
  require<ConfigError>(place.mp_degree >= 1, "mp_degree must be >= 1, got ", place.mp_degree);
  require<ConfigError>(0 <= place.mp_index && place.mp_index < place.mp_degree, "mp_index must be in [0, ",
                       place.mp_degree, "), got ", place.mp_index);
  require<ConfigError>(!place.sequence_parallel || place.mp_degree > 1,
                       "sequence_parallel needs an mp_degree > 1, got ", place.mp_degree);
  if (place.mp == nullptr) {
    require<InternalError>(place.mp_degree == 1 || place.device.is_meta(), "a layer on ", place.device.str(),
                           " with mp_degree ", place.mp_degree, " needs the mp group's communicator");
    return;
  }
  require<InternalError>(place.mp->size() == place.mp_degree && place.mp->index() == place.mp_index,
                         "member ", place.mp_index, " of ", place.mp_degree,
                         " got the communicator of member ", place.mp->index(), " of ", place.mp->size());
}

tensor::Range equal_part(int64_t size, const Placement& place, std::string_view what) {
  require<ConfigError>(size % place.mp_degree == 0, what, " must be a multiple of the mp degree ",
                       place.mp_degree, ", got ", size);
  const int64_t part = size / place.mp_degree;
  return {.begin = place.mp_index * part, .end = (place.mp_index + 1) * part};
}

KeyValueHeads key_value_part(int64_t heads, const Placement& place) {
  if (heads >= place.mp_degree) return {.part = equal_part(heads, place, "num_key_value_heads")};
  require<ConfigError>(place.mp_degree % heads == 0,
                       "num_key_value_heads must be a divisor of the mp degree ", place.mp_degree,
                       " if it is smaller, got ", heads);
  const auto copies = static_cast<int32_t>(place.mp_degree / heads);
  const int64_t head = place.mp_index / copies;
  return {.part = {.begin = head, .end = head + 1}, .copies = copies};
}

int64_t vocabulary_part_size(int64_t vocabulary, int32_t mp_degree) {
  return (vocabulary + mp_degree - 1) / mp_degree;
}

tensor::Range vocabulary_part(int64_t vocabulary, const Placement& place) {
  const int64_t size = vocabulary_part_size(vocabulary, place.mp_degree);
  require<ConfigError>((place.mp_degree - 1) * size < vocabulary, "vocab_size ", vocabulary,
                       " is too small for the mp degree ", place.mp_degree, ": with ", counted(size, "token"),
                       " each, rank ", (vocabulary + size - 1) / size, " of the mp group would have none");
  return {.begin = place.mp_index * size, .end = std::min((place.mp_index + 1) * size, vocabulary)};
}

}  // namespace braid::layers
