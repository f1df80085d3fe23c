import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import { colourOf } from '../parts/colour-of.ts'

const SCROLLBACK_LINES = 5000

export interface OpenedTerminal {
  size(): { cols: number; rows: number }
  write(text: string): void
  onInput(listener: (text: string) => void): void
  onResize(listener: (size: { cols: number; rows: number }) => void): void
  focus(): void
  close(): void
}

/** A terminal that fills its box. Output of the sandbox is drawn, never parsed as HTML. */
export function openTerminal(box: HTMLElement): OpenedTerminal {
  const terminal = new Terminal({
    fontFamily: 'ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace',
    fontSize: 13,
    lineHeight: 1.25,
    scrollback: SCROLLBACK_LINES,
    cursorBlink: true,
    screenReaderMode: true,
    theme: {
      background: colourOf('--code-paper'),
      foreground: colourOf('--ink'),
      cursor: colourOf('--accent'),
      selectionBackground: colourOf('--selection'),
    },
  })
  const fit = new FitAddon()
  terminal.loadAddon(fit)
  terminal.open(box)
  fit.fit()
  const observer = new ResizeObserver(() => fit.fit())
  observer.observe(box)
  return {
    size: () => ({ cols: terminal.cols, rows: terminal.rows }),
    write: (text) => terminal.write(text),
    onInput: (listener) => void terminal.onData(listener),
    onResize: (listener) => void terminal.onResize(({ cols, rows }) => listener({ cols, rows })),
    focus: () => terminal.focus(),
    close: () => {
      observer.disconnect()
      terminal.dispose()
    },
  }
}
