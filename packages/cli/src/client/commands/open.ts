import { spawn } from 'node:child_process'
import type { Call } from '../call.ts'

interface OpenFlags {
  /** False with `--no-browser`. */
  readonly browser: boolean
}

const OPENER = process.platform === 'darwin' ? 'open' : 'xdg-open'

/** Opens the page of the server in a browser, signed in by a link that works once. */
export async function open(call: Call, { browser }: OpenFlags): Promise<void> {
  const url = await call.client.createSignInLink({ signal: call.signal })
  if (browser && (await launch(url)))
    call.note('Opened the page in your browser. If you do not see it, use this link:')
  else call.note('Open this link in a browser within a minute. It works once:')
  call.printResult({ url }, `${url}\n`)
}

/** False when there is no program that opens a browser. */
function launch(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(OPENER, [url], { stdio: 'ignore', detached: true })
    child.once('error', () => resolve(false))
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}
