// The state of a fake.
#include "tests/libraries/fake.hpp"

#include <cstdio>
#include <vector>

FakeState gradus_fake;

int fake::wrong(const char* what) {
  if (gradus_fake.wrong++ == 0)
    std::snprintf(gradus_fake.first_wrong, sizeof gradus_fake.first_wrong, "%s", what);
  return kInvalidValue;
}

void fake::bury(void* object) {
  static auto* const buried = new std::vector<void*>;
  buried->push_back(object);
}
