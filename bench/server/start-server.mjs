import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** Starts a server in a separate process with a separate state directory. */
export async function startServer(stateDir, dataDir, config = {}) {
  await writeFile(join(stateDir, 'config.json'), JSON.stringify({ logLevel: 'warn', ...config }))
  const program = fileURLToPath(new URL('serve.mjs', import.meta.url))
  const child = spawn(process.execPath, ['--expose-gc', program, stateDir, dataDir], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  let url
  for await (const line of createInterface({ input: child.stdout })) {
    url ??= /^\s+address\s+(\S+)$/.exec(line)?.[1]
    if (line.startsWith('Ctrl-C')) break
  }
  const { key } = JSON.parse(await readFile(join(stateDir, 'client.json'), 'utf8'))
  /** The size of the server's heap after a garbage collection. */
  const liveBytes = async () => {
    child.send('')
    const [bytes] = await once(child, 'message')
    return bytes
  }
  return { child, url, key, liveBytes }
}
