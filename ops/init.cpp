#include "ops/init.hpp"

#include "ops/def/fingerprint.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/base/registry.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/diagonal/classed.hpp"

#include <mutex>

namespace gradus::inline v1 {

void init() {
  static std::once_flag once;
  std::call_once(once, [] {
    set_statements({def::statements_hash(), def::statement_count(), def::statement_text});
    register_pointwise();
    register_pointwise_compositions();
    register_memory();
    register_views();
    register_join();
    register_reductions();
    register_contractions();
    register_network();
    register_products();
    register_einsum();
    register_to_dense();
    register_indexing();
    register_softmax();
    register_losses();
    register_random();
    register_creation();
    register_masking();
    register_sorting();
    register_scans();
    register_rearrangements();
    register_windows();
    register_standardize();
    register_norms();
    register_distances();
    register_linear();
    register_attention();
    register_linalg();
    register_block_copy();
    register_grouped();
    register_batching();
  });
}

}  // namespace gradus
