import type { SandboxInfo } from 'dormouse'
import { remove, sleep, wake } from '../sandbox/actions.ts'
import { count } from '../words.ts'

interface BulkBarProps {
  readonly selected: readonly SandboxInfo[]
  readonly onClear: () => void
}

/** What can be done with all selected sandboxes. */
export function BulkBar({ selected, onClear }: BulkBarProps) {
  if (selected.length === 0) return null
  const then = (work: Promise<unknown>) => void work.then(onClear)
  return (
    <div class="bulk" role="toolbar" aria-label="Selected sandboxes">
      <strong>{count(selected.length)} selected</strong>
      <button type="button" onClick={() => then(wake(selected))}>
        Wake
      </button>
      <button type="button" onClick={() => then(sleep(selected))}>
        Sleep
      </button>
      <button type="button" onClick={() => then(sleep(selected, 'stored'))}>
        Store on disk
      </button>
      <button
        type="button"
        class="danger"
        onClick={() => void remove(selected).then((done) => done && onClear())}
      >
        Delete
      </button>
      <span class="spacer" />
      <button type="button" class="plain" onClick={onClear}>
        Clear
      </button>
    </div>
  )
}
