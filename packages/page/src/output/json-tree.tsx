/** What is shown of one list or object before the reader asks for more. */
const ENTRIES_MAX = 200
const OPEN_DEPTH = 2

export function JsonTree({ value, depth = 0 }: { value: unknown; depth?: number }) {
  if (typeof value !== 'object' || value === null) return <Leaf value={value} />
  const isList = Array.isArray(value)
  const entries = Object.entries(value)
  const [open, close] = isList ? ['[', ']'] : ['{', '}']
  if (entries.length === 0) return <span class="json">{`${open}${close}`}</span>
  return (
    <details class="json" open={depth < OPEN_DEPTH && entries.length <= ENTRIES_MAX}>
      <summary>
        {open} <small>{`${entries.length} ${isList ? 'items' : 'fields'}`}</small> {close}
      </summary>
      <ul>
        {entries.slice(0, ENTRIES_MAX).map(([key, one]) => (
          <li key={key}>
            <span class="t-call">{key}</span>: <JsonTree value={one} depth={depth + 1} />
          </li>
        ))}
        {entries.length > ENTRIES_MAX && <li>… {entries.length - ENTRIES_MAX} more</li>}
      </ul>
    </details>
  )
}

function Leaf({ value }: { value: unknown }) {
  const kind = typeof value === 'string' ? 'string' : typeof value === 'number' ? 'number' : 'keyword'
  return <span class={`t-${kind}`}>{JSON.stringify(value) ?? 'undefined'}</span>
}
