// libisl (sets of integers), which is loaded at run time: `isl.set_union` is isl_set_union.
#ifndef CODEGEN_PROVE_ISL_H
#define CODEGEN_PROVE_ISL_H

#include <isl/aff.h>
#include <isl/ctx.h>
#include <isl/id.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>
#include <stdbool.h>

#define ISL_FUNCTIONS(F)                                                                          \
  F(ctx_alloc)                                                                                    \
  F(ctx_free)                                                                                     \
  F(ctx_set_max_operations)                                                                       \
  F(ctx_reset_operations)                                                                         \
  F(options_set_on_error) F(id_alloc) F(space_params_alloc) F(space_add_param_id)                 \
      F(aff_param_on_domain_space_id) F(aff_val_on_domain_space) F(val_int_from_si) F(val_free)   \
          F(val_get_num_si) F(pw_aff_from_aff) F(pw_aff_copy) F(pw_aff_free) F(pw_aff_add)        \
              F(pw_aff_sub) F(pw_aff_neg) F(pw_aff_mul) F(pw_aff_div) F(pw_aff_floor)             \
                  F(pw_aff_tdiv_q) F(pw_aff_tdiv_r) F(pw_aff_mod_val) F(pw_aff_min) F(pw_aff_max) \
                      F(pw_aff_is_cst) F(pw_aff_union_add) F(pw_aff_intersect_domain)             \
                          F(pw_aff_eq_set) F(pw_aff_ne_set) F(pw_aff_lt_set) F(pw_aff_le_set)     \
                              F(pw_aff_gt_set) F(pw_aff_ge_set) F(set_universe) F(set_empty)      \
                                  F(set_copy) F(set_free) F(set_intersect) F(set_union)           \
                                      F(set_subtract) F(set_complement) F(set_is_empty)           \
                                          F(set_project_out) F(set_find_dim_by_name) F(set_dim)   \
                                              F(set_get_dim_name) F(set_set_dim_id)               \
                                                  F(set_align_params) F(set_from_params)          \
                                                      F(set_move_dims) F(set_lexmin)              \
                                                          F(set_sample_point) F(set_coalesce)     \
                                                              F(point_get_coordinate_val)         \
                                                                  F(point_is_void) F(point_free)

typedef struct {
#define F(name) __typeof__(isl_##name) *name;
  ISL_FUNCTIONS(F)
#undef F
} Isl;
extern Isl isl;

bool isl_load(void);  // false: the library is not installed

#endif
