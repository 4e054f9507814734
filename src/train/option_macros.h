/* Shorthands for the kinds of options in option tables. */
#ifndef WEFT_TRAIN_OPTION_MACROS_H
#define WEFT_TRAIN_OPTION_MACROS_H

#define TEXT .kind = WEFT_OPT_STRING
#define WHOLE .kind = WEFT_OPT_INT
#define REAL .kind = WEFT_OPT_REAL
#define FLAG .kind = WEFT_OPT_FLAG

#endif
