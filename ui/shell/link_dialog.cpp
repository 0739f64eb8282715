// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/link_dialog.h"

#include "ui/shell/view_link.h"
#include "ui/widgets/text.h"

#include <QApplication>
#include <QClipboard>
#include <QPushButton>
#include <QVBoxLayout>

namespace planloom::ui {

LinkDialog::LinkDialog(QWidget *parent)
    : QDialog(parent),
      m_link(new QLineEdit(this)),
      m_problem(new QLabel(this)),
      m_buttons(new QDialogButtonBox(QDialogButtonBox::Open | QDialogButtonBox::Cancel, this))
{
    setWindowTitle(tr("Open a link"));
    resize(640, sizeHint().height());
    m_link->setPlaceholderText(QStringLiteral("planloom:/data/plan.json?view=timeline"));
    m_link->setAccessibleName(tr("Link"));
    m_problem->setWordWrap(true);
    m_problem->setMinimumHeight(2 * fontMetrics().lineSpacing());
    m_problem->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    m_problem->setAccessibleName(tr("What is wrong with the link"));
    auto *label = new QLabel(tr("&Link, as View ▸ Copy a link to this view makes it:"), this);
    label->setBuddy(m_link);
    auto *layout = new QVBoxLayout(this);
    layout->addWidget(label);
    layout->addWidget(m_link);
    layout->addWidget(m_problem);
    layout->addWidget(m_buttons);
    connect(m_buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(m_buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_link, &QLineEdit::textChanged, this, &LinkDialog::check);
    if (const QString copied = QApplication::clipboard()->text(); copied.size() < 4096 && isLink(copied))
        m_link->setText(copied.trimmed());
    m_link->selectAll();
    check();
}

void LinkDialog::check()
{
    const bool isEmpty = link().isEmpty();
    const auto read = readLink(link());
    m_problem->setText(isEmpty || read ? QString() : qt(read.error().text()));
    m_buttons->button(QDialogButtonBox::Open)->setEnabled(!isEmpty && read.ok());
}

} // namespace planloom::ui
