import type { Command } from 'commander'

/**
 * Puts `--` between flags of ours and the command to run, where it was left out: `exec box -u root ls -l` is `exec box -u root -- ls -l`.
 * What comes behind belongs to that command, a second `--` too.
 */
export function withSeparator(args: readonly string[], { options }: Pick<Command, 'options'>): string[] {
  let positionals = 0
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? ''
    if (arg === '--') break
    if (arg.startsWith('-') && arg !== '-') {
      if (options.some(({ short, long, required }) => required && (arg === short || arg === long))) at += 1
    } else if (++positionals === 2) return [...args.slice(0, at), '--', ...args.slice(at)]
  }
  return [...args]
}
