%token <string> ID
%token <int> INT
%token PLUS MINUS TIMES DIV MOD EQ NE LT GT LE GE AND OR NOT LPAR RPAR LBRACE RBRACE LBRACK RBRACK
%token COMMA SEMI ASSIGN IF ELSE WHILE FOR DO RETURN BREAK CONTINUE STRUCT DOT ARROW AMP STAR QUESTION COLON EOF
%token TYPE_INT TYPE_CHAR TYPE_VOID SWITCH CASE DEFAULT INC DEC SHL SHR XOR BOR TILDE SIZEOF
%start <unit> program
%%
program: list(external_declaration) EOF {}
external_declaration: specifier declarator block {} | specifier separated_list(COMMA, initialised) SEMI {}
specifier: TYPE_INT {} | TYPE_CHAR {} | TYPE_VOID {} | STRUCT ID {} | STRUCT option(ID) LBRACE nonempty_list(member) RBRACE {}
member: specifier separated_nonempty_list(COMMA, declarator) SEMI {}
initialised: declarator {} | declarator ASSIGN initialiser {}
initialiser: assignment {} | LBRACE separated_nonempty_list(COMMA, initialiser) RBRACE {}
declarator: list(STAR) direct {}
direct: ID {} | LPAR declarator RPAR {} | direct LBRACK option(conditional) RBRACK {} | direct LPAR separated_list(COMMA, parameter) RPAR {}
parameter: specifier declarator {} | specifier list(STAR) {}
block: LBRACE list(item) RBRACE {}
item: statement {} | specifier separated_list(COMMA, initialised) SEMI {}
statement: block {} | option(expression) SEMI {} | IF LPAR expression RPAR statement {} | IF LPAR expression RPAR statement ELSE statement {}
 | WHILE LPAR expression RPAR statement {} | DO statement WHILE LPAR expression RPAR SEMI {}
 | FOR LPAR option(expression) SEMI option(expression) SEMI option(expression) RPAR statement {}
 | RETURN option(expression) SEMI {} | BREAK SEMI {} | CONTINUE SEMI {} | SWITCH LPAR expression RPAR statement {}
 | CASE conditional COLON statement {} | DEFAULT COLON statement {} | ID COLON statement {}
expression: assignment {} | expression COMMA assignment {}
assignment: conditional {} | unary ASSIGN assignment {}
conditional: logical_or {} | logical_or QUESTION expression COLON conditional {}
logical_or: logical_and {} | logical_or OR logical_and {}
logical_and: inclusive {} | logical_and AND inclusive {}
inclusive: exclusive {} | inclusive BOR exclusive {}
exclusive: conjunction {} | exclusive XOR conjunction {}
conjunction: equality {} | conjunction AMP equality {}
equality: relational {} | equality EQ relational {} | equality NE relational {}
relational: shift {} | relational LT shift {} | relational GT shift {} | relational LE shift {} | relational GE shift {}
shift: additive {} | shift SHL additive {} | shift SHR additive {}
additive: multiplicative {} | additive PLUS multiplicative {} | additive MINUS multiplicative {}
multiplicative: cast {} | multiplicative TIMES cast {} | multiplicative STAR cast {} | multiplicative DIV cast {} | multiplicative MOD cast {}
cast: unary {} | LPAR specifier list(STAR) RPAR cast {}
unary: postfix {} | INC unary {} | DEC unary {} | AMP cast {} | STAR cast {} | MINUS cast {} | TILDE cast {} | NOT cast {} | SIZEOF unary {}
postfix: primary {} | postfix LBRACK expression RBRACK {} | postfix LPAR separated_list(COMMA, assignment) RPAR {} | postfix DOT ID {} | postfix ARROW ID {} | postfix INC {} | postfix DEC {}
primary: ID {} | INT {} | LPAR expression RPAR {}
