import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('ipykernel.py', import.meta.url))

/** Returns undefined if Debian's python3-ipykernel and python3-jupyter-client are not installed. */
export async function startIpykernel() {
  const child = spawn('/usr/bin/python3', [program], { stdio: ['pipe', 'pipe', 'ignore'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const first = await lines.next()
  if (first.value !== 'ready') return undefined
  return {
    async runOnce() {
      child.stdin.write('\n')
      return Number((await lines.next()).value)
    },
    async end() {
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
    },
  }
}
