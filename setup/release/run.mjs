import { spawnSync } from 'node:child_process'

/**
 * Runs a program to its end and returns what it printed. Ends this process if it fails.
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} cwd
 */
export function run(program, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status === 0) return stdout
  console.error(`${program} ${args.join(' ')} failed:\n${error?.message ?? `${stdout}${stderr}`}`)
  process.exit(1)
}
