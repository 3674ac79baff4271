# Prints gdb's answers for addresses (hexadecimal, one a line in the file named by $addresses). Each
# answer is a line that begins with @: the functions, innermost first, and `info symbol`'s symbol.
import gdb

for text in open(gdb.convenience_variable("addresses").string()):
    pc = int(text, 16)
    names, block = [], gdb.block_for_pc(pc)
    while block is not None and not block.is_static and not block.is_global:
        if block.function is not None:
            names.append(block.function.print_name)
        block = block.superblock
    symbol = gdb.execute("info symbol 0x%x" % pc, to_string=True).split(" in section ")[0].strip()
    print("@" + "\t".join([*names, symbol]))
