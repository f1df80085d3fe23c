import DOMPurify from 'dompurify'
import { useEffect, useRef, useState } from 'preact/hooks'

const MAX_PX = 640
/** Nothing is loaded from anywhere, and nothing runs. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"

/**
 * HTML of a sandbox: sanitised, then shown in a frame without scripts, forms and links to other places. The frame
 * keeps the origin of this page only so that its height can be measured; without scripts that gives it nothing.
 */
export function HtmlFrame({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null)
  const [height, setHeight] = useState(80)
  const measure = () => {
    const inside = frame.current?.contentDocument?.documentElement
    if (inside !== undefined && inside !== null) setHeight(Math.min(MAX_PX, inside.scrollHeight + 2))
  }
  useEffect(() => {
    const observer = new ResizeObserver(measure)
    if (frame.current !== null) observer.observe(frame.current)
    return () => observer.disconnect()
  }, [])
  return (
    <iframe
      ref={frame}
      class="html"
      title="Output of the sandbox"
      sandbox="allow-same-origin"
      referrerpolicy="no-referrer"
      srcdoc={documentOf(html)}
      style={{ height: `${height}px` }}
      onLoad={measure}
    />
  )
}

export function documentOf(html: string): string {
  const clean = DOMPurify.sanitize(html, {
    USE_PROFILES: { html: true, svg: true, mathMl: true },
    FORBID_TAGS: [
      'form',
      'input',
      'button',
      'textarea',
      'select',
      'link',
      'meta',
      'base',
      'iframe',
      'object',
      'embed',
    ],
    FORBID_ATTR: ['action', 'formaction', 'ping', 'target'],
    ADD_TAGS: ['style'],
    FORCE_BODY: true,
  })
  const theme = getComputedStyle(document.documentElement)
  const variable = (name: string) => theme.getPropertyValue(name)
  return `<!doctype html><meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>
    html { color-scheme: ${theme.colorScheme}; color: ${variable('--ink')}; background: transparent }
    body { margin: 0; font: 13px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
    a { color: inherit; pointer-events: none }
    table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 12.5px }
    th, td { padding: 3px 10px; text-align: right; border: 0; border-bottom: 1px solid ${variable('--line')} }
    thead th { border-bottom-color: ${variable('--line-strong')}; font-weight: 600 }
    tbody th { color: ${variable('--ink-2')}; font-weight: 500 }
  </style><body>${clean}`
}
