// Elements of a page, made with their attributes and children.

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return made;
}

// Text with control characters made visible, as show/printable.py does: a name from a file must not turn the direction
// of the text around it, nor hide a part of itself.
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Co}\u2028\u2029]/gu, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (char === "\n" || char === "\t") return char;
    const digits = code.toString(16);
    return code < 0x100 ? `\\x${digits.padStart(2, "0")}` : code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
  });
}
