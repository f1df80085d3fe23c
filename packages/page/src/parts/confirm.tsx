import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'

interface Question {
  readonly title: string
  readonly text: string
  readonly action: string
  readonly answer: (isYes: boolean) => void
}

const question = signal<Question | undefined>(undefined)

/** Asks before something that cannot be undone. */
export function confirmed(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      ...{ title, text, action },
      answer: (isYes) => {
        question.value = undefined
        resolve(isYes)
      },
    }
  })
}

export function ConfirmDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const asked = question.value
  useEffect(() => {
    if (asked !== undefined && dialog.current?.open === false) dialog.current.showModal()
  }, [asked])
  if (asked === undefined) return null
  return (
    <dialog ref={dialog} onCancel={() => asked.answer(false)} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{asked.title}</h2>
      <p>{asked.text}</p>
      <div class="buttons">
        <button type="button" onClick={() => asked.answer(false)}>
          Cancel
        </button>
        <button type="button" class="danger" onClick={() => asked.answer(true)}>
          {asked.action}
        </button>
      </div>
    </dialog>
  )
}
