import type { Pty } from 'dormouse'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { mayRun } from '../state/session.ts'
import { tell } from '../state/toasts.ts'

/** A shell in the sandbox. Opening one wakes it, so a sleeping sandbox asks first. */
export function TerminalPart({ sandbox, info }: PartProps) {
  const box = useRef<HTMLDivElement>(null)
  const [isOpen, setIsOpen] = useState(info.state === 'running' && mayRun())
  const [ended, setEnded] = useState<string>()
  useEffect(() => {
    if (!isOpen || box.current === null) return
    const closing = new AbortController()
    setEnded(undefined)
    void openShell(box.current, sandbox, closing.signal)
      .then((exit) => exit !== undefined && setEnded(exit))
      .catch((error: unknown) => {
        if (closing.signal.aborted) return
        tell(`Terminal: ${error instanceof Error ? error.message : String(error)}`, 'failed')
        setEnded('The terminal could not be opened.')
      })
    return () => closing.abort()
  }, [isOpen, sandbox])
  if (!mayRun()) return <p class="empty">This key may look, and not touch: it cannot open a terminal.</p>
  if (!isOpen) {
    return (
      <section class="empty">
        <p>{ended ?? 'A terminal needs the sandbox awake.'}</p>
        <button type="button" class="main" onClick={() => setIsOpen(true)}>
          {info.state === 'running' ? 'Open a terminal' : 'Wake it and open a terminal'}
        </button>
      </section>
    )
  }
  return (
    <section class="terminal" aria-label="Terminal">
      <div ref={box} class="screen" />
      {ended !== undefined && (
        <p class="note">
          {ended}{' '}
          <button type="button" onClick={() => setIsOpen(false)}>
            Close
          </button>
        </p>
      )}
    </section>
  )
}

/** Resolves with words when the shell ends; undefined when the reader left. */
async function openShell(box: HTMLElement, sandbox: PartProps['sandbox'], leave: AbortSignal) {
  const { openTerminal } = await import('./open-terminal.ts')
  if (leave.aborted) return undefined
  const terminal = openTerminal(box)
  let pty: Pty | undefined
  leave.addEventListener('abort', () => {
    terminal.close()
    // The page was left, and with it the only view of this shell.
    void pty?.kill('SIGHUP').catch(() => {})
    pty?.disconnect()
  })
  terminal.focus()
  // What is typed before the shell is there waits for it.
  const opening = sandbox.pty.create({ ...terminal.size(), onData: (text) => terminal.write(text) })
  terminal.onInput((text) => void opening.then((opened) => opened.write(text)).catch(() => {}))
  const opened = await opening
  pty = opened
  terminal.onResize((size) => void opened.resize(size).catch(() => {}))
  const { exitCode } = await opened.wait()
  return leave.aborted ? undefined : `The shell ended with exit code ${exitCode}.`
}
