import type { Command } from 'commander'

/**
 * Does `--` divide what was typed into flags of ours and a command to run (`exec box -u root -- ls -l`)? Without it, or where it belongs
 * to that command itself (`exec box git checkout -- file`), everything behind the sandbox is the command's.
 */
export function isDivided(args: readonly string[], { options }: Command): boolean {
  const end = args.indexOf('--')
  if (end < 0) return false
  let positionals = 0
  for (let at = 0; at < end; at++) {
    const arg = args[at] ?? ''
    if (!arg.startsWith('-')) positionals += 1
    else if (options.some(({ short, long, required }) => required && (arg === short || arg === long))) at += 1
  }
  return positionals <= 1
}
