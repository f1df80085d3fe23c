import { dismiss, toasts } from '../state/toasts.ts'
import { Glyph } from './icons.tsx'

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, kind }) => (
        <div key={id} class={`toast ${kind}`}>
          <span>{text}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(id)}>
            <Glyph name="close" />
          </button>
        </div>
      ))}
    </div>
  )
}
