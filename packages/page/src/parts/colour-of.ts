/** A colour of the theme as an rgb value: a canvas knows neither variables nor `light-dark()`. */
export function colourOf(variable: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${variable})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
