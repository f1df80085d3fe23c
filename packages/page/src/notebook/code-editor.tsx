import type { Completions } from 'dormouse'
import { forwardRef } from 'preact/compat'
import { useEffect, useImperativeHandle, useRef } from 'preact/hooks'
import type { OpenedEditor } from './open-editor.ts'

export interface EditorHandle {
  text(): string
  clear(): void
}

interface CodeEditorProps {
  readonly language: string
  readonly label: string
  readonly value?: string
  readonly onRun?: () => void
  readonly onSave?: () => void
  readonly complete?: (code: string) => Promise<Completions | undefined>
}

/** A text area, until the editor is there: it is loaded when it is first needed. */
export const CodeEditor = forwardRef<EditorHandle, CodeEditorProps>((props, handle) => {
  const box = useRef<HTMLDivElement>(null)
  const area = useRef<HTMLTextAreaElement>(null)
  const editor = useRef<OpenedEditor | undefined>(undefined)
  const latest = useRef(props)
  latest.current = props
  useImperativeHandle(handle, () => ({
    text: () => editor.current?.text() ?? area.current?.value ?? '',
    clear: () => {
      editor.current?.replace('')
      if (area.current !== null) area.current.value = ''
    },
  }))
  useEffect(() => {
    let isOver = false
    void import('./open-editor.ts').then(({ openEditor }) => {
      if (isOver || box.current === null) return
      const typed = area.current?.value ?? ''
      const hadFocus = document.activeElement === area.current
      editor.current = openEditor(box.current, {
        text: typed === '' ? (props.value ?? '') : typed,
        language: props.language,
        label: props.label,
        onRun: () => latest.current.onRun?.(),
        onSave: () => latest.current.onSave?.(),
        complete: (code) => latest.current.complete?.(code) ?? Promise.resolve(undefined),
      })
      if (area.current !== null) area.current.hidden = true
      if (hadFocus) editor.current.focus()
    })
    return () => {
      isOver = true
      editor.current?.close()
      editor.current = undefined
    }
  }, [])
  useEffect(() => editor.current?.setLanguage(props.language), [props.language])
  return (
    <div class="editor" ref={box}>
      <textarea
        ref={area}
        rows={3}
        aria-label={props.label}
        spellcheck={false}
        defaultValue={props.value ?? ''}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !(event.shiftKey || event.ctrlKey || event.metaKey)) return
          event.preventDefault()
          props.onRun?.()
        }}
      />
    </div>
  )
})
